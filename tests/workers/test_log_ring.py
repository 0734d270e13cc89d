"""The ring of an attempt's log: its bound, its positions, and what it makes of odd lines."""

import base64
import io
import logging
import sys
import threading
import zlib
from typing import Any

import pytest

from itinerary.protocol.attempt_logs import KEPT_BYTES, compressed_of, packed, unpacked
from itinerary.protocol.errors import BadValue
from itinerary.worker.hiding import Hiding
from itinerary.worker.log_capture import Capture
from itinerary.worker.log_ring import LogRing


def add(ring: LogRing, made: logging.LogRecord) -> None:
    capture = Capture(output=False, alone=True)
    capture._only = ring
    capture.handle(made)


def record(message: object, *args: Any, level: int = logging.INFO, **kwargs: Any) -> logging.LogRecord:
    made = logging.LogRecord("app.tasks", level, "app.py", 1, message, args, kwargs.pop("exc_info", None), **kwargs)
    made.created = 1_795_939_200.25
    return made


def test_a_line_says_when_how_and_where() -> None:
    ring = LogRing()
    assert ring.is_empty
    add(ring, record("%d rows", 3))
    assert not ring.is_empty
    assert ring.tail().text == "2026-11-29 08:00:00.250 INFO app.tasks: 3 rows\n"
    assert (ring.tail().start, ring.tail().end) == (0, len(ring.tail().text))


def test_a_traceback_follows_its_line() -> None:
    ring = LogRing()
    try:
        raise KeyError("absent")
    except KeyError:
        add(ring, record("failed", level=logging.ERROR, exc_info=sys.exc_info()))
    lines = ring.tail().text.splitlines()
    assert (lines[0][-6:], lines[1], lines[-1]) == (
        "failed",
        "Traceback (most recent call last):",
        "KeyError: 'absent'",
    )


@pytest.mark.parametrize(
    "line", ["x" * 60, "ü" * 500, "y" * 5_000, "z" * 300_000], ids=["short", "wide", "long", "huge"]
)
def test_the_last_64_kib_stay_whatever_was_written(line: str) -> None:
    ring = LogRing()
    for n in range(3_000_000 // len(line)):
        add(ring, record(f"{line} {n}"))
    tail = ring.tail()
    assert tail.text.endswith(f"{line[-100:]} {n}\n")
    assert KEPT_BYTES - len(line.encode()) - 100 <= len(tail.text.encode()) <= KEPT_BYTES
    assert tail.end == sum(len(f"{line} {n}") + 41 for n in range(3_000_000 // len(line)))
    assert ring._held < 2 * KEPT_BYTES + 64 * 4096 + 64 * 500


def test_a_reader_goes_on_where_it_was() -> None:
    ring = LogRing()
    read, text = 0, ""
    for n in range(500):
        add(ring, record(f"line {n}"))
        if n % 7 == 0:
            new = ring.tail(read)
            assert new.start == read
            read, text = new.end, text + new.text
    assert text == ring.tail().text[: len(text)]
    assert ring.tail(ring.tail().end).text == ""


def test_what_a_slow_reader_missed_is_missing_at_the_start() -> None:
    ring = LogRing()
    for n in range(10_000):
        add(ring, record(f"line {n}"))
    tail = ring.tail(10)
    assert tail.start > 10
    assert tail == ring.tail()


def test_half_characters_and_nul_are_kept_as_text_that_can_be_stored() -> None:
    ring = LogRing()
    add(ring, record("half \ud800 a pair, a nul \x00, \x1b[31mred"))
    tail = ring.tail()
    assert tail.text.endswith("half \ufffd a pair, a nul \x00, \x1b[31mred\n")
    assert unpacked(compressed_of(packed(tail).text)) == tail.text
    assert tail.end == len(tail.text)


def test_known_values_are_hidden_before_a_line_is_cut() -> None:
    secret = "s3cr3t-of-the-test"
    ring = LogRing(Hiding([secret]))
    add(ring, record(f"{'x' * 300_000}{secret}{'y' * (KEPT_BYTES - 10)}"))
    ring.add("OUTPUT", "stdout", f"printed {secret}")
    assert "s3cr3t" not in ring.tail().text
    assert "printed ***" in ring.tail().text


class Odd:
    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize("made", [record("%d", "x"), record("%s", Odd()), record(Odd())])
def test_a_record_that_cannot_be_formatted_is_named_and_harms_nothing(made: logging.LogRecord) -> None:
    capture = Capture(output=False, alone=False)
    ring = capture.begin(str)
    try:
        capture.handle(made)
    finally:
        capture.end()
    assert "<a record that cannot be shown: " in ring.tail().text


def test_threads_of_a_lone_task_are_its_own_and_others_are_nobodys() -> None:
    for alone in (True, False):
        capture = Capture(output=False, alone=alone)
        ring = capture.begin(str)
        other = threading.Thread(target=capture.handle, args=(record("from a thread"),))
        other.start()
        other.join()
        capture.end()
        capture.handle(record("after the end"))
        assert ring.is_empty is not alone
        assert "after the end" not in ring.tail().text


def test_a_line_that_a_task_does_not_end_is_its_own_and_never_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.StringIO())
    capture = Capture(output=True, alone=True)
    first = capture.begin(str)
    sys.stdout.write("of the first")
    capture.end()
    sys.stderr.write("of nobody")
    second = capture.begin(str)
    print("of the second")
    print("and its end", file=sys.stderr)
    capture.end()
    shown = [[line[24:] for line in ring.tail().text.splitlines()] for ring in (first, second)]
    assert shown == [["OUTPUT stdout: of the first"], ["OUTPUT stdout: of the second", "OUTPUT stderr: and its end"]]


def test_a_record_says_what_its_arguments_were_when_it_was_written() -> None:
    capture = Capture(output=False, alone=True)
    ring = capture.begin(str)
    rows = [1, 2]
    capture.handle(record("%s", rows))
    rows.append(3)
    capture.end()
    assert ring.tail().text.endswith(": [1, 2]\n")


@pytest.mark.parametrize("before", [0, KEPT_BYTES - 5, 2 * KEPT_BYTES - 5], ids=["short", "a log", "two logs"])
def test_a_value_that_stands_across_two_writes_is_hidden(monkeypatch: pytest.MonkeyPatch, before: int) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    capture = Capture(output=True, alone=True)
    ring = capture.begin(Hiding(["s3cr3t-of-the-test"]))
    for part in ("x" * before, "a s3cr3t-of", "-the-test, ", "y" * 100, " b\n"):
        sys.stdout.write(part)
    capture.end()
    assert ring.tail().text.endswith(f"a ***, {'y' * 100} b\n")
    assert "s3cr3t" not in ring.tail().text


def test_of_a_line_that_never_ends_the_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    capture = Capture(output=True, alone=True)
    ring = capture.begin(str)
    for n in range(100_000):
        sys.stdout.write(f"\r{n} rows")
    capture.end()
    assert ring.tail().text.endswith("\r99998 rows\r99999 rows\n")
    assert KEPT_BYTES - 20 <= len(ring.tail().text) <= KEPT_BYTES


@pytest.mark.parametrize("text", ["", "?", "AAAA", packed(LogRing().tail()).text[:-4], "A" * 200_000])
def test_what_is_no_packed_log_is_refused(text: str) -> None:
    with pytest.raises(BadValue):
        compressed_of(text)


def test_a_log_that_unpacks_to_more_than_it_may_is_refused() -> None:
    bomb = base64.b64encode(zlib.compress(b"0" * (KEPT_BYTES + 1))).decode()
    with pytest.raises(BadValue, match="at most 65536 bytes"):
        compressed_of(bomb)
