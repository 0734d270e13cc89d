"""The supervisor, on real processes: order, restart, output, and that nothing is left behind."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.runtime.console import Console
from scheduler_service.runtime.supervisor import LONGEST_DELAY, next_delay
from tests.support.processes import REPOSITORY, Child, alive, project_env, wait_until

pytestmark = pytest.mark.slow  # real processes, or many round trips

SLEEPER = [sys.executable, "-S", "-c", "import signal; print('up', flush=True); signal.pause()"]
STUBBORN = [
    sys.executable, "-S", "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)\nwhile 1: signal.pause()",
]  # fmt: skip


@pytest.fixture
def supervise(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """A function that starts a supervisor of the given parts; it is killed at the end of the test."""

    def start(*parts: dict[str, Any]) -> Child:
        (tmp_path / "parts.json").write_text(json.dumps(parts))
        argv = [sys.executable, "-m", "tests.support.supervised", str(tmp_path / "parts.json")]
        child = Child(argv, env=project_env(NO_COLOR="1"))
        request.addfinalizer(child.kill)
        return child

    return start


def pids_of(supervisor: Child, name: str) -> list[int]:
    """Every pid that the part had so far."""
    return [int(pid) for pid in re.findall(rf"(?m)^{name} +\| \* started, pid (\d+)", supervisor.output)]


def pid_of(supervisor: Child, name: str, number: int = 1) -> int:
    """The pid of its `number`-th process, once it runs."""
    return wait_until(lambda: pids_of(supervisor, name)[number - 1 :], what=lambda: supervisor.output)[0]


def order(supervisor: Child, word: str) -> list[str]:
    """The parts in the order of their status lines that begin with `word`."""
    return re.findall(rf"(?m)^(\w+) +\| \* {word}", supervisor.output)


def test_a_part_starts_only_once_the_one_before_it_is_ready(supervise: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    supervisor = supervise(
        {"name": "first", "argv": SLEEPER, "ready_file": str(gate)}, {"name": "second", "argv": SLEEPER}
    )
    supervisor.wait_for_line("first  | up")
    assert order(supervisor, "started") == ["first"]
    gate.touch()
    supervisor.wait_for_line("second | up")
    assert supervisor.output.index("first  | * ready") < supervisor.output.index("second | * started")


def test_a_signal_stops_the_parts_in_reverse_order_and_leaves_none(supervise: Any) -> None:
    supervisor = supervise(*({"name": name, "argv": SLEEPER} for name in ("one", "two", "three")))
    supervisor.wait_for_line("three | up")
    pids = [pid_of(supervisor, name) for name in ("one", "two", "three")]
    assert supervisor.stop() == 0
    assert order(supervisor, "stopped") == ["three", "two", "one"]
    assert not any(map(alive, pids))


def test_a_killed_part_is_started_again_and_the_others_are_left_alone(supervise: Any) -> None:
    supervisor = supervise({"name": "one", "argv": SLEEPER}, {"name": "two", "argv": SLEEPER})
    supervisor.wait_for_line("two | up")
    _kill(pid_of(supervisor, "one"))
    supervisor.wait_for_line("one | * ended by SIGKILL; starting again in 0.2 s")
    assert alive(pid_of(supervisor, "one", 2))
    assert len(pids_of(supervisor, "two")) == 1


def test_a_part_that_keeps_dying_waits_longer_each_time(supervise: Any) -> None:
    supervisor = supervise({"name": "sick", "argv": [sys.executable, "-S", "-c", "raise SystemExit(3)"]})
    for wait in ("0.2", "0.4", "0.8"):
        supervisor.wait_for_line(f"exit status 3; starting again in {wait} s")
    assert supervisor.stop() == 0


def test_the_delay_doubles_up_to_its_limit_and_begins_anew_after_a_proven_life() -> None:
    waits, delay = [], 0.2
    for _ in range(8):
        wait, delay = next_delay(delay, lived=1)
        waits.append(wait)
    assert waits == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, LONGEST_DELAY, LONGEST_DELAY])
    assert next_delay(delay, lived=30) == (0.2, 0.4)


def test_a_part_that_does_not_stop_in_time_is_killed(supervise: Any) -> None:
    supervisor = supervise({"name": "mule", "argv": STUBBORN, "stop_timeout": 0.2})
    supervisor.wait_for_line("mule | up")
    assert supervisor.stop() == 0
    assert "killed: it did not stop within 0.2 s" in supervisor.output
    assert not alive(pid_of(supervisor, "mule"))


def test_a_second_signal_kills_everything_at_once(supervise: Any) -> None:
    supervisor = supervise({"name": "calm", "argv": SLEEPER}, {"name": "mule", "argv": STUBBORN, "stop_timeout": 60})
    supervisor.wait_for_line("mule | up")
    supervisor.signal(signal.SIGINT)
    supervisor.wait_for_line("mule | * stopping")
    wait_until(lambda: _ended_after_another_signal(supervisor), what=lambda: supervisor.output, every=0.3)
    assert not any(alive(pid_of(supervisor, name)) for name in ("calm", "mule"))
    assert "did not stop within" not in supervisor.output  # nobody waited for them


def test_one_signal_that_arrives_twice_still_stops_gently(supervise: Any) -> None:
    supervisor = supervise({"name": "mule", "argv": STUBBORN, "stop_timeout": 0.4})
    supervisor.wait_for_line("mule | up")
    supervisor.signal(signal.SIGTERM)
    supervisor.signal(signal.SIGTERM)
    assert supervisor.wait() == 0
    assert "did not stop within" in supervisor.output


def test_no_part_outlives_a_supervisor_that_is_killed(supervise: Any) -> None:
    supervisor = supervise({"name": "one", "argv": SLEEPER}, {"name": "mule", "argv": STUBBORN})
    supervisor.wait_for_line("mule | up")
    pids = [pid_of(supervisor, "one"), pid_of(supervisor, "mule")]
    supervisor.kill_alone()
    wait_until(lambda: not any(map(alive, pids)), what=f"{pids} to be gone")


def test_what_a_dead_part_had_started_dies_with_it(supervise: Any, tmp_path: Path) -> None:
    child = "import subprocess, sys, signal; p = subprocess.Popen(sys.argv[1:]); print('child', p.pid, flush=True); "
    supervisor = supervise({"name": "pool", "argv": [sys.executable, "-S", "-c", child + "signal.pause()", *STUBBORN]})
    grandchild = int(supervisor.wait_for_line("| child").split()[-1])
    supervisor.wait_for_line("pool | up")
    _kill(pid_of(supervisor, "pool"))
    wait_until(lambda: not alive(grandchild), what="the grandchild to be gone")


def test_a_part_that_runs_once_is_not_started_again_when_it_succeeded(supervise: Any) -> None:
    task = [sys.executable, "-S", "-c", "print('did it')"]
    supervisor = supervise({"name": "task", "argv": task, "once": True}, {"name": "next", "argv": SLEEPER})
    supervisor.wait_for_line("next | up")
    supervisor.wait_for_line("task | * done")
    assert len(pids_of(supervisor, "task")) == 1
    assert supervisor.stop() == 0


def test_the_last_words_of_a_dying_part_are_printed_before_its_end(supervise: Any) -> None:
    talk = [sys.executable, "-S", "-c", "print('x' * 200_000); print('last', end='', flush=True); raise SystemExit(1)"]
    supervisor = supervise({"name": "talker", "argv": talk})
    supervisor.wait_for_line("talker | * exit status 1")
    assert supervisor.output.index("talker | last") < supervisor.output.index("talker | * exit status 1")


def test_a_program_that_cannot_be_run_is_told_by_name(supervise: Any) -> None:
    supervisor = supervise({"name": "ghost", "argv": ["/no/such/program"]})
    supervisor.wait_for_line("ghost | /no/such/program: No such file or directory")


def test_a_console_whose_reader_stopped_drops_lines_and_counts_them() -> None:
    with _StuckStream() as stream:
        console = Console(["a"], stream)
        console.line("a", "first")
        stream.entered.wait(60)
        for _ in range(10_050):
            console.line("a", "more")
        stream.let_go.set()
        wait_until(lambda: stream.getvalue().count("more") == 10_000, what="the kept lines")
        console.line("a", "last")
        console.close()
        assert "... 50 lines were dropped" in stream.getvalue()


def test_what_a_part_prints_neither_steers_the_terminal_nor_passes_for_another_part(supervise: Any) -> None:
    forged = "\\x1b[2J\\x1b]0;title\\x07 a\\rleader | forged \\x85leader | too \\u2028leader | and \\u202e that"
    supervisor = supervise({"name": "worker", "argv": [sys.executable, "-S", "-X", "utf8", "-c", f"print('{forged}')"]})
    line = supervisor.wait_for_line("forged")
    assert line.startswith("worker | \\x1b[2J\\x1b]0;title\\x07 a\\rleader | forged \\x85leader")
    assert line.rstrip("\n").isprintable()
    assert not [line for line in supervisor.output.splitlines() if not line.startswith("worker | ")]


def test_before_anything_is_stopped_a_part_is_asked_to_begin_nothing_new(supervise: Any) -> None:
    # Written past Python's buffer: a signal that comes while `up` is being flushed may not enter that again.
    careful = "import os, signal; signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b'paused\\n'))\n"
    careful += "print('up', flush=True)\nwhile 1: signal.pause()"
    supervisor = supervise(
        {"name": "leader", "argv": [sys.executable, "-S", "-c", careful], "pause_signal": "SIGUSR1"},
        {"name": "worker", "argv": STUBBORN, "stop_timeout": 2},
    )
    supervisor.wait_for_line("leader | up")
    supervisor.wait_for_line("worker | up")
    supervisor.signal(signal.SIGINT)
    assert supervisor.wait() == 0
    assert order(supervisor, "stopped") == ["worker", "leader"]
    assert supervisor.output.index("leader | paused") < supervisor.output.index("worker | * stopped")


def test_a_supervisor_that_nobody_reads_any_more_stops_its_parts(tmp_path: Path) -> None:
    chatter = "import time\nwhile 1: print('tick', flush=True); time.sleep(0.05)"
    part = {"name": "chatter", "argv": [sys.executable, "-S", "-c", chatter]}
    (tmp_path / "parts.json").write_text(json.dumps([part]))
    argv = [sys.executable, "-m", "tests.support.supervised", str(tmp_path / "parts.json")]
    with subprocess.Popen(argv, env=project_env(), cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        pid = int(supervisor.stdout.readline().split()[-1])
        supervisor.stdout.close()
        assert supervisor.wait() == 0
    assert not alive(pid)


class _StuckStream(io.StringIO):
    """A terminal that somebody paused at its first line."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.let_go = threading.Event(), threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        self.let_go.wait(60)
        return super().write(text)


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def _ended_after_another_signal(supervisor: Child) -> bool:
    if supervisor.running:
        supervisor.signal(signal.SIGINT)
    return not supervisor.running
