"""`deploy test --durations`: each file's wall and CPU seconds, those of its children too, from every process."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.durations import Phase, table
from tests.support.processes import REPOSITORY, project_env

BUSY = """
import subprocess, sys

SPIN = "import time\\nwhile time.process_time() < 0.5: pass"

def test_a_child_works():
    subprocess.run([sys.executable, "-c", SPIN], check=True)
"""
WAITING = """
import pytest, threading

@pytest.fixture
def prepared():
    threading.Event().wait(5)

def test_it_waits(prepared):
    threading.Event().wait(0.2)
"""


def phase(nodeid: str, when: str, wall: float, cpu: float, ended: float, process: str = "gw0") -> Phase:
    return Phase(nodeid, when, process, wall, cpu, ended)


def test_the_slowest_file_is_first_by_what_it_waits_or_works() -> None:
    lines = table(
        [
            phase("a.py::test_short", "call", 0.1, 0.1, 1),
            phase("b.py::test_works", "setup", 0.5, 2.0, 2),
            phase("b.py::test_works", "call", 1.0, 3.0, 3),
            phase("c.py::test_waits", "call", 9.0, 0.5, 12, "gw1"),
            phase("c.py::test_too", "call", 1.0, 0.5, 13, "gw1"),
        ],
        {"gw0": 1.5, "gw1": 2.5},
        began=0,
    )
    assert [line.split() for line in lines[2:8]] == [
        ["10.0", "1.0", "0.0", "0.0", "2", "c.py"],
        ["9.0", "s", "of", "it:", "test_waits"],
        ["1.0", "3.0", "0.5", "2.0", "1", "b.py"],
        ["0.1", "0.1", "0.0", "0.0", "1", "a.py"],
        ["11.1", "4.1", "0.5", "2.0", "4", "all", "of", "them"],
        ["starting", "and", "collecting:", "4.0", "CPU", "s", "in", "2", "processes"],
    ]
    assert lines[8:] == [
        "gw0: last test ended after 3.0 s; 5.1 CPU s in tests",
        "gw1: last test ended after 13.0 s; 1.0 CPU s in tests",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_run_counts_children_and_set_up_apart(tmp_path: Path, processes: str) -> None:
    (tmp_path / "test_busy.py").write_text(BUSY)
    (tmp_path / "test_waiting.py").write_text(WAITING)
    plugins = ["-p", "tests.support.durations", "-p", "no:cacheprovider", "-n", processes]
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *plugins, "--rootdir", str(tmp_path), str(tmp_path)],
        env=project_env(), cwd=REPOSITORY, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    files = {name: [float(n) for n in numbers] for *numbers, name in re.findall(
        r"(?m)^ +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +1  test_(\w+)\.py", ended.stdout
    )}  # fmt: skip
    assert files["busy"][1] >= 0.4, ended.stdout
    waited, _, set_up, _ = files["waiting"]
    assert 0.2 <= waited < set_up, ended.stdout
    assert ended.stdout.count("last test ended after") == max(1, int(processes))
