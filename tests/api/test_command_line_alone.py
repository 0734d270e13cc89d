"""The command line in an environment that holds next to nothing, or odd things: nothing of a machine is needed."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.command_line import COMMAND, Itinerary
from tests.support.processes import CHECKOUT, Child

pytestmark = pytest.mark.slow  # whole processes


@pytest.fixture
def bare(itinerary: Itinerary) -> dict[str, str]:
    """What `env -i PATH=... PYTHONPATH=...` leaves, and where the API is."""
    url = f"http://127.0.0.1:{itinerary.env['ITINERARY_API_PORT']}"
    return {"PATH": os.environ["PATH"], "PYTHONPATH": CHECKOUT, "ITINERARY_API_URL": url}


def test_what_is_followed_in_a_pipe_is_seen_at_once(bare: dict[str, str], itinerary: Itinerary) -> None:
    with Child([*COMMAND, "runs", "watch", "--every", "0.1"], env=bare) as watching:
        itinerary.done("enqueue", "itinerary.echo", "--key", "seen-in-a-pipe")
        watching.wait_for_line("scheduled adhoc_")
        assert watching.running
        watching.signal(signal.SIGINT)
        assert watching.wait() == 130


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"TZ": "Nowhere/Odd"},
        {"COLUMNS": "5", "TERM": "dumb"},
        {"PYTHONTZPATH": "", "PYTHONOPTIMIZE": "2", "PYTHONSAFEPATH": "1"},
    ],
)
def test_commands_work_whatever_the_environment_lacks_or_holds(
    bare: dict[str, str], odd: dict[str, str], tmp_path: Path
) -> None:
    """Letters that the locale cannot write, no home, an odd zone, a folder that cannot be written."""
    tmp_path.chmod(0o500)
    key = "-".join(odd) or "bare"
    for words in (["status"], ["enqueue", "itinerary.echo", "--kwargs", '{"a": "ü▏"}', "--key", key], ["runs", "list"]):
        argv = ["sh", "-c", 'umask 077; exec "$0" "$@"', *COMMAND, *words]
        with Child(argv, env=bare | odd, cwd=tmp_path) as command:
            status = command.wait()
        assert "Traceback" not in command.output
        assert status == 0 or words == ["status"], command.output
        assert sys.executable not in command.output


def test_the_collector_is_spared_what_stays(bare: dict[str, str]) -> None:
    """Seldom while it runs, and not at the end: the last word is had by what was registered first."""
    last = "atexit.register(lambda: print(gc.get_threshold()[0], gc.get_freeze_count() > 10_000))"
    program = f"import atexit, gc; {last}; from scheduler_service.cli import main; main()"
    with Child([sys.executable, "-P", "-c", program, "--version"], env=bare) as command:
        assert command.wait() == 0
    assert command.output.splitlines()[-1] == "50000 True"
