"""What tasks return and raise, made fit to be stored."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.protocol.instants import SECOND
from itinerary.protocol.wire import entry
from itinerary.worker.asked_retry import _arguments
from itinerary.worker.plain import ARGUMENTS_LIMIT, RESULT_LIMIT, cut, plain_error, plain_result, printable
from itinerary.worker.reporting import Report, ReportBuilder
from scheduler_service.core.leader.entry_fields import MAX_BODY
from scheduler_service.core.leader.messages import Failed, RetryAsked, Succeeded, decode

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
TOLD = ReportBuilder("billing_x~1", "celery@here", 5 * SECOND)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def raised(exc: BaseException) -> BaseException:
    try:
        raise exc
    except type(exc) as caught:
        return caught


def decoded(report: Report) -> Any:
    return decode(entry(report.kind, report.at, dict(report.body)))


@pytest.mark.slow
@given(JSON)
def test_json_values_pass_unchanged(value: Any) -> None:
    assert plain_result(value) == value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, 2), [1, 2]),
        ({"when": datetime(2026, 12, 1, tzinfo=UTC)}, {"when": "2026-12-01T00:00:00+00:00"}),
        (date(2026, 12, 1), "2026-12-01"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ({1: "one"}, {"1": "one"}),
        ([{1}], [{"$repr": {"type": "set", "text": "{1}"}}]),
        ({(1, 2): 3}, {"$repr": {"type": "dict", "text": "{(1, 2): 3}"}}),
        (float("nan"), {"$repr": {"type": "float", "text": "nan"}}),
        (b"\x00", {"$repr": {"type": "bytes", "text": "b'\\x00'"}}),
    ],
    ids=repr,
)
def test_other_values_become_plain_or_are_marked(value: Any, plain: Any) -> None:
    assert plain_result(value) == plain


@pytest.mark.slow
def test_endless_and_bottomless_values_are_marked() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (loop, deep, 10**5000, Unprintable()):
        assert set(plain_result(value)) == {"$repr"}


def test_a_result_over_the_limit_is_cut_and_says_how_long_it_was() -> None:
    text = "ä" * RESULT_LIMIT
    short = plain_result(text)
    assert short["$cut"]["size"] == len(json.dumps(text))
    assert len(json.dumps(short)) < 10_000


def test_a_result_that_nests_too_deep_to_be_read_everywhere_is_cut() -> None:
    deep: Any = "]]]] \U0001f600"
    for _ in range(100):
        deep = [deep]
    assert plain_result(deep) == deep
    wide = [[]] * 1_000
    assert plain_result(wide) == wide
    assert set(plain_result({"one more": deep})) == {"$cut"}


def test_a_retry_with_arguments_that_nest_too_deep_is_refused_where_it_is_asked_for() -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    asked, request = SimpleNamespace(args=[deep], kwargs={}), SimpleNamespace(args=[], kwargs={})
    with pytest.raises(ValueError, match="100 levels"):
        _arguments(asked, request)


def test_text_is_cut_in_the_middle() -> None:
    text = cut("a" * 50 + "b" * 50, 20)
    assert text.startswith("a" * 10 + "\n...")
    assert text.endswith("...\n" + "b" * 10)
    assert "80 characters cut" in text
    assert cut("short", 20) == "short"


def test_an_exception_that_cannot_be_printed_still_has_a_type() -> None:
    error = plain_error(raised(Unprintable()))
    assert error["type"].endswith("Unprintable")
    assert "cannot be printed" in error["message"]
    assert "test_plain.py" in error["traceback"]


def test_the_cause_of_an_exception_is_in_its_traceback() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as exc:
            raise ValueError("outer") from exc
    except ValueError as exc:
        error = plain_error(exc)
    assert "KeyError: 'inner'" in error["traceback"]
    assert (error["type"], error["message"]) == ("ValueError", "outer")


def test_printable_text_is_the_text() -> None:
    assert printable(ValueError("x")) == "x"


@pytest.mark.parametrize("text", ["ä" * 10**6, "\x00\ud800" * 10**5, '\\"' * 10**6], ids=["wide", "odd", "escaped"])
def test_no_report_is_too_long_to_be_read(text: str) -> None:
    exc = raised(ValueError(text))
    arguments = [text[: ARGUMENTS_LIMIT // 12]]
    reports = (
        TOLD.succeeded(text),
        TOLD.succeeded({"odd": Unprintable(), text: text}),
        TOLD.failed(exc, "timed_out"),
        TOLD.retry(9 * SECOND, arguments, {}, 1, exc),
    )
    for report in reports:
        assert len(entry(report.kind, report.at, dict(report.body))["body"]) < MAX_BODY
        assert isinstance(decoded(report), Succeeded | Failed | RetryAsked)


def test_a_report_says_who_when_and_why() -> None:
    failed = decoded(TOLD.failed(raised(ValueError("bad")), "timed_out"))
    assert (failed.run_id, failed.attempt, failed.worker) == ("billing_x", 1, "celery@here")
    assert (failed.started_at, failed.reason, failed.error["message"]) == (5 * SECOND, "timed_out", "bad")
