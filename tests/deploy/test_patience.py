"""A test fails because of what the product does, never because a machine is slow."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE, REPOSITORY
from tests.support.syntax import nodes

WAITS = {"wait_until": 1, "wait_for_line": 1, "report_of": 3, "wait_state": 3}
"""The place of the timeout among the arguments."""
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "monotonic_ns", "perf_counter_ns"}
PERHAPS = re.compile("|".join(map(r"\b{}\(".format, (*WAITS, *CLOCKS, "repeat", "timeit"))))
THE_WAIT_IS_THE_SUBJECT = {"tests/loops/test_servers_of_the_suite.py"}


def impatient(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line of each call that waits for a number of seconds below the shared one."""
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            place = WAITS.get(name, len(node.args))
            given = [*node.args[place : place + 1], *(word.value for word in node.keywords if word.arg == "timeout")]
            if name in WAITS and any(isinstance(one, ast.Constant) and one.value < PATIENCE for one in given):
                yield node.lineno, f"{name} waits for less than PATIENCE: leave the number out"


def timed(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line of each assertion that a clock has not gone too far, and of each measurement by timeit."""
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "timeit":
            yield node.lineno, "a measurement: count calls by tests.support.work, or write a benchmark"
        if isinstance(node, ast.Assert):
            compared = [part for part in nodes(node.test) if isinstance(part, ast.Compare)]
            if any(_asks_a_clock(side) for part in compared for side in _upper_bounded(part)):
                yield node.lineno, "a bound on what a clock shows: wait for a signal, or count what is done"


def _upper_bounded(compared: ast.Compare) -> Iterator[ast.expr]:
    for (left, right), how in zip(pairwise([compared.left, *compared.comparators]), compared.ops, strict=True):
        if isinstance(how, ast.Lt | ast.LtE):
            yield left
        elif isinstance(how, ast.Gt | ast.GtE):
            yield right


def _asks_a_clock(tree: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in CLOCKS for node in nodes(tree))


def found_in(path: Path) -> list[str]:
    text, name = path.read_text("utf-8"), str(path.relative_to(REPOSITORY))
    if name in THE_WAIT_IS_THE_SUBJECT or not PERHAPS.search(text):
        return []
    tree = ast.parse(text)
    return [f"{name}:{line} {what}" for line, what in (*timed(tree), *impatient(tree))]


@pytest.mark.slow
def test_no_test_fails_because_a_machine_is_slow() -> None:
    files = [path for path in (REPOSITORY / "tests").rglob("*.py") if "benchmarks" not in path.parts]
    assert not "\n".join(find for path in files for find in found_in(path))


def test_what_would_judge_the_machine_is_found() -> None:
    code = """
wait_until(ready, 20, "it")
child.wait_for_line("ready", timeout=5)
wait_until(ready, 600)
wait_until(ready, what="it")
assert time.monotonic() - began < 2
assert 0.5 > max(time.perf_counter() - began, 0)
assert time.monotonic() - began >= 0.1
assert min(timeit.repeat(step)) < 1
"""
    tree = ast.parse(code)
    assert sorted(line for line, _ in (*impatient(tree), *timed(tree))) == [2, 3, 6, 7, 9]
