"""The table of faults is complete, and every test that it names is there."""

import re
from itertools import chain

import pytest

from tests.support.processes import REPOSITORY

TABLE = (REPOSITORY / "tests/e2e/README.md").read_text()
ROWS = re.findall(r"^\| ([A-I]\d+|[DCPR]\d+) \| .+? \| (.+) \|$", TABLE, re.MULTILINE)
TESTS = re.findall(r"`(\S+?\.py)::(test_\w+)(?:\[(.+?)\])?`", TABLE)
TRIGGERS = dict(
    zip(
        "ABCDEFGHI",
        ((1, 13), (14, 25), (26, 37), (38, 50), (51, 68), (69, 76), (77, 85), (86, 92), (93, 110)),
        strict=True,
    )
)
SEEN = {"D": (1, 12), "C": (1, 14), "P": (1, 5), "R": (1, 11)}


def numbers(kinds: dict[str, tuple[int, int]]) -> list[str]:
    return [f"{kind}{number}" for kind, (first, last) in kinds.items() for number in range(first, last + 1)]


def test_every_fault_of_the_catalogue_has_one_row() -> None:
    assert sorted(name for name, _ in ROWS) == sorted(chain(numbers(TRIGGERS), numbers(SEEN)))


@pytest.mark.parametrize(("name", "answer"), ROWS)
def test_a_fault_is_answered_by_a_test_another_row_or_a_reason(name: str, answer: str) -> None:
    rows = {row for row, _ in ROWS} - {name}
    assert "::test_" in answer or answer.startswith("by design: ") or re.findall(r"\b[A-I]\d+\b", answer)
    assert set(re.findall(r"(?<!\w)[A-I]\d{1,3}\b", re.sub(r"`[^`]*`", "", answer))) <= rows


@pytest.mark.parametrize(("file", "test", "parameter"), sorted(set(TESTS)))
def test_a_test_that_is_named_is_there(file: str, test: str, parameter: str) -> None:
    text = (REPOSITORY / "tests" / file).read_text()
    assert re.search(rf"\bdef {test}\(", text), f"{file} has no {test}"
    if parameter:
        assert f'"{parameter}"' in text + (REPOSITORY / "tests/support/crash_points.py").read_text()
