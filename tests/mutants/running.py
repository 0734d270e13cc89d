"""Runs the tests of each mutant in copies of the tree; the tree itself is never changed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.mutants.listed import ROOT, Mutant

BOUND_S: Final = 180
_FAILED: Final = 1  # pytest's status where tests failed; all higher ones say that it could not run them
_LEFT_OUT: Final = shutil.ignore_patterns(".git", ".venv*", ".itinerary", "__pycache__", ".hypothesis", ".*_cache")


class Outcome(StrEnum):
    """What the tests said of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    TIMED_OUT = "killed: it never ends"
    BROKEN = "broken: its tests could not run"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One mutant's outcome, how long that took, and what pytest printed."""

    mutant: Mutant
    outcome: Outcome
    seconds: float
    output: str

    @property
    def is_killed(self) -> bool:
        """Whether a test noticed it."""
        return self.outcome in (Outcome.KILLED, Outcome.TIMED_OUT)


class UnsoundTests(Exception):
    """The tests fail without any mutant, so that they could prove nothing."""


def judged(mutants: Sequence[Mutant], folder: Path, copies: int) -> Iterator[Verdict]:
    """The verdicts, as they come; UnsoundTests first where the tests do not pass on the unchanged tree."""
    first = folder / "1"
    shutil.copytree(ROOT, first, ignore=_LEFT_OUT)
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    at_once = ["-n", str(copies), "--dist", "loadfile"] if copies > 1 else []
    status, output = _pytest(first, [*at_once, *tests], BOUND_S + 5 * len(mutants), keep_bytecode=True)
    if status != 0:
        raise UnsoundTests(output)
    free: SimpleQueue[Path] = SimpleQueue()
    free.put(first)
    for number in range(2, copies + 1):
        free.put(Path(shutil.copytree(first, folder / str(number))))
    with ThreadPoolExecutor(copies) as pool:
        yield from pool.map(lambda mutant: _judge(mutant, free), mutants)


def _judge(mutant: Mutant, free: "SimpleQueue[Path]") -> Verdict:
    tree = free.get()
    began = time.monotonic()
    try:
        with _changed(tree / mutant.path, mutant):
            status, output = _pytest(tree, mutant.tests, BOUND_S)
    finally:
        free.put(tree)
    outcome = {None: Outcome.TIMED_OUT, 0: Outcome.SURVIVED, _FAILED: Outcome.KILLED}.get(status, Outcome.BROKEN)
    return Verdict(mutant, outcome, time.monotonic() - began, output)


@contextmanager
def _changed(path: Path, mutant: Mutant) -> Iterator[None]:
    """The file with the change; afterwards as it was, its time too, so that its bytecode fits again."""
    text, before = path.read_text("utf-8"), path.stat()
    path.write_text(mutant.applied(text), "utf-8")
    try:
        yield
    finally:
        path.write_text(text, "utf-8")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _pytest(tree: Path, tests: Sequence[str], bound_s: float, *, keep_bytecode: bool = False) -> tuple[int | None, str]:
    """pytest's status and output; None where it had to be ended."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": f"{tree}:{tree / 'workers'}"} | ({} if keep_bytecode else {"PYTHONDONTWRITEBYTECODE": "1"})
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-o", "timeout=60", *tests]
    child = subprocess.Popen(
        command, cwd=tree, env=env, start_new_session=True, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = child.communicate(timeout=bound_s)
        return child.returncode, output
    except subprocess.TimeoutExpired:
        return None, f"not done after {bound_s:.0f} s"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)  # with the servers that its session started
            child.communicate()
