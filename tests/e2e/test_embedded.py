"""`Schedule.run()`: somebody's own program with a leader and a worker in it."""

import re
import signal
import sys
from pathlib import Path

import pytest

from tests.support.command_line import COMMAND
from tests.support.processes import Child, project_env, wait_until
from tests.support.running import Running, own_redis_port

pytestmark = pytest.mark.e2e

PROGRAM = """
import os, sys, threading
from celery import Celery
from scheduler_service.jobs_as_code import Schedule

app = Celery("mine")
schedule = Schedule(tags=["mine"])

def say(*words):
    # One write, so that threads never share a line.
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()

@app.task(name="mine.task")
def task(x):
    say("task", x)

def plain(job_id, scheduled_at, note="none"):
    say("plain", job_id, scheduled_at.isoformat(), note, os.getpid())

schedule.interval("plain", task=plain, every="1s", kwargs={"note": "hello"})
schedule.interval("lambda", task=lambda job_id: say("lambda", job_id), every="1s", queue="other")
CELERY

def add_later():
    sys.stdin.readline()
    schedule.interval("late", task=lambda: say("late of nothing"), every="1s", queue="third")
    say("added")

threading.Thread(target=add_later, daemon=True).start()

if __name__ == "__main__":
    schedule.run(concurrency=4)
    say("over")
"""


def program(folder: Path, *, celery: bool, waits: bool = True) -> Path:
    text = PROGRAM.replace("CELERY", 'schedule.interval("task", task=task, every="1s", args=[7])' if celery else "")
    own_redis_port(folder / ".itinerary")
    path = folder / "my_program.py"
    path.write_text(text if waits else text.replace("sys.stdin.readline()", "return"))
    return path


@pytest.mark.parametrize("celery", [False, True])
def test_functions_and_tasks_run_in_the_program_and_threads_add_jobs_meanwhile(tmp_path: Path, celery: bool) -> None:
    """The functions take two arguments, one and none."""
    # Its standard input is empty: the line that the thread waits for comes at once.
    path = program(tmp_path, celery=celery)
    with Child([sys.executable, str(path)], env=project_env(PYTHONUNBUFFERED="1"), cwd=tmp_path) as child:
        ran = child.wait_for_line("plain plain")
        assert ran.split()[-2:] == ["hello", str(child.pid)]
        child.wait_for_line("lambda lambda")
        child.wait_for_line("added")
        child.wait_for_line("late of nothing")
        if celery:
            child.wait_for_line("task 7")
        child.signal(signal.SIGINT)
        assert child.wait() == 0, child.output
        assert "over" in child.output
        assert "Traceback" not in child.output


def test_no_occurrence_runs_twice_and_a_second_start_goes_on(tmp_path: Path) -> None:
    path = program(tmp_path, celery=False, waits=False)
    seen: list[str] = []
    for _ in range(2):
        with Child([sys.executable, str(path)], env=project_env(PYTHONUNBUFFERED="1"), cwd=tmp_path) as child:
            wait_until(lambda child=child: child.output.count("plain plain") >= 3, what=lambda: child.output)
            child.signal(signal.SIGTERM)
            assert child.wait() == 0, child.output
            seen += re.findall(r"plain plain (\S+)", child.output)  # its threads print into one another
    assert len(seen) == len(set(seen)) >= 6


def test_a_second_program_on_the_same_folder_says_who_is_there(tmp_path: Path) -> None:
    path = program(tmp_path, celery=False, waits=False)
    with Child([sys.executable, str(path)], env=project_env(), cwd=tmp_path) as first:
        first.wait_for_line("plain plain")
        with Child([sys.executable, str(path)], env=project_env(), cwd=tmp_path) as second:
            assert second.wait() == 1
            assert f"pid {first.pid}" in second.output
        first.signal(signal.SIGINT)
        assert first.wait() == 0


SECRETS = """
from scheduler_service.jobs_as_code import Schedule

def spent(job_id, scheduled_at, key, password):
    print("has", len(key), len(password), flush=True)
    raise RuntimeError(f"no: {key} {password}")

schedule = Schedule()
key, password = {"$env": "API_KEY"}, {"$secret": "db-password"}
schedule.interval("spent", task=spent, every="1s", kwargs={"key": key, "password": password})
schedule.interval("refused", task=spent, every="1s", kwargs={"key": {"$env": "HOME"}, "password": "p"})
schedule.run()
"""


def test_arguments_that_name_secrets_have_their_values_in_the_function_and_nowhere_else(tmp_path: Path) -> None:
    values = ("the-key-of-the-test", "the-password-of-it")
    own_redis_port(tmp_path / ".itinerary")
    (tmp_path / "my_program.py").write_text(SECRETS)
    (tmp_path / "db-password").write_text(values[1])
    allowed = {"ITINERARY_SECRET_ENV_NAMES": "API_KEY", "ITINERARY_SECRET_FOLDER": str(tmp_path), "API_KEY": values[0]}
    env = project_env(PYTHONUNBUFFERED="1", **allowed)
    with Child([sys.executable, str(tmp_path / "my_program.py")], env=env, cwd=tmp_path) as child:
        child.wait_for_line("has 19 18")
        child.wait_for_line("no: *** ***")
        child.wait_for_line("HOME is not allowed: add it to ITINERARY_SECRET_ENV_NAMES")
        child.signal(signal.SIGINT)
        assert child.wait() == 0, child.output
    kept = [path.read_bytes() for path in (tmp_path / ".itinerary").rglob("*") if path.is_file()]
    for value in values:
        assert value not in child.output
        assert not [content for content in kept if value.encode() in content]
    assert any(b'"$env": "API_KEY"' in content or b'"$env":"API_KEY"' in content for content in kept)


APPLIED = """
from scheduler_service.jobs_as_code import Schedule

def report(job_id, scheduled_at):
    return f"{job_id} at {scheduled_at.isoformat()}"

schedule = Schedule("mine")
schedule.interval("report", task=report, every="1s")
schedule.interval("nameless", task=lambda job_id, at: job_id, every="1s")

if __name__ == "__main__":
    schedule.run()
"""


def test_the_same_file_is_applied_to_a_service_whose_worker_runs_its_functions(tmp_path: Path) -> None:
    (tmp_path / "my_jobs.py").write_text(APPLIED)
    with Running(tmp_path / ".itinerary", "--app", "my_jobs:schedule") as running:
        env = project_env(ITINERARY_DATA_DIR=str(running.data_dir))
        with Child([*COMMAND, "jobs", "apply", "my_jobs.py", "--yes"], env=env, cwd=tmp_path) as applying:
            assert applying.wait() == 0, applying.output
        with running.client() as client:
            for job_id, result in (("report", "report at 2"), ("nameless", "nameless")):
                done = wait_until(
                    lambda job_id=job_id: client.runs(job_id=job_id, state="completed")["items"],
                    what=lambda: running.output,
                )
                assert str(done[0]["result"]).startswith(result)
        assert running.stop() == 0
