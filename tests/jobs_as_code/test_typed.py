"""What mypy says of wrong decorators, in the strict mode of a user's program."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY, project_env

pytestmark = pytest.mark.slow  # mypy reads the package first

PROGRAM = """
from datetime import datetime, timedelta, timezone

from itinerary import schedule


@schedule.cron("0 2 1 * *", timezone="Europe/Berlin", day_match="and", overlap="queue", retry={"max_attempts": 3})
@schedule.hourly(17, job_id="b", priority=3, misfire={"policy": "skip", "grace": timedelta(minutes=1)})
@schedule.interval(timedelta(minutes=4), offset="1m", job_id="c", args=[1], start_at=datetime.now(timezone.utc))
@schedule.balanced("25m", pinned=True, job_id="d", tags=["x"], fair_key={"from": "args.0"})
@schedule.calendar("week", ["05:30"], weekdays=["mon"], job_id="e")
@schedule.once("2027-01-01T00:00:00Z", job_id="f", kwargs={"a": 1}, limits=["x", {"name": "t", "key": "k"}])
def close(month: int) -> str:
    return str(month)


length: int = len(close(1))
close("x")  # wrong: arg-type
schedule.cron()  # wrong: call-arg
schedule.cron(5)  # wrong: arg-type
schedule.cron("* * * * *", colour="red")  # wrong: call-arg
schedule.cron("* * * * *", overlap="que")  # wrong: arg-type
schedule.cron("* * * * *", "UTC")  # wrong: call-arg
schedule.cron("* * * * *", day_match="xor")  # wrong: arg-type
schedule.cron("0 0 9 * * ?", dialect="unix")  # wrong: arg-type
schedule.cron("* * * * *", retry={"attempts": 3})  # wrong: typeddict-unknown-key
schedule.cron("* * * * *", misfire={"policy": "never"})  # wrong: typeddict-item
schedule.cron("* * * * *", limits=[5])  # wrong: list-item
schedule.hourly("17")  # wrong: arg-type
schedule.hourly(17, priority=12)  # wrong: arg-type
schedule.interval(4)  # wrong: arg-type
schedule.interval("4m", pinned=True)  # wrong: call-arg
schedule.balanced("4m", offset="1m")  # wrong: call-arg
schedule.calendar("fortnight", "05:30")  # wrong: arg-type
schedule.calendar("week", "05:30", weekdays=["monday"])  # wrong: list-item
schedule.once(17)  # wrong: arg-type
schedule.once("2027-01-01T00:00:00Z", kwargs=[1])  # wrong: arg-type
schedule.yearly(1)  # wrong: attr-defined
"""


def test_a_wrong_decorator_is_an_error_of_types_and_the_task_keeps_its_own(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "mypy.ini").write_text("[mypy]\n")
    command = [
        sys.executable, "-m", "mypy", "--strict", "--config-file", "mypy.ini", "--cache-dir", "cache",
        "--python-version", "3.10", "--follow-imports", "silent", "program.py",
    ]  # fmt: skip
    env = project_env(MYPYPATH=str(REPOSITORY / "workers"))
    ended = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = {}
    for one in ended.stdout.splitlines():
        place, _, message = one.partition(": error: ")
        if message:
            found[int(place.rsplit(":", 1)[1])] = message.rpartition("[")[2].rstrip("]")
    marks = [(number, line.partition("# wrong: ")[2]) for number, line in enumerate(PROGRAM.splitlines(), 1)]
    assert found == {number: kind for number, kind in marks if kind}, ended.stdout + ended.stderr
