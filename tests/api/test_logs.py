"""Logs: one line an event, a traceback in lines of its own, nothing of a user in control, no secret."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from scheduler_service.observability.logs import LogFormat, Unrepeated, configure_logs, escaped
from scheduler_service.observability.repeated_events import Seldom

NASTY = "a\nb\r\x1b[31mred\u202edlrow\u2028\x00\ud800"


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines_of(log_format: LogFormat, level: str = "info") -> tuple[io.StringIO, structlog.stdlib.BoundLogger]:
    stream = io.StringIO()
    configure_logs(log_format, level, stream)
    return stream, structlog.get_logger("test")


@pytest.mark.parametrize("log_format", ["console", "json", "auto"])
def test_an_event_is_one_line_whatever_is_in_it(log_format: LogFormat) -> None:
    stream, log = lines_of(log_format)
    log.info("run released", run_id=NASTY, nested={"k": NASTY})
    logging.getLogger("some.library").warning("said %s", NASTY)
    try:
        raise ValueError(NASTY)
    except ValueError:
        log.exception("it broke")
    lines = stream.getvalue().splitlines()
    assert len([line for line in lines if not line.startswith("    ")]) == 3
    assert all(line.isprintable() for line in lines)


def test_a_traceback_is_read_in_lines_that_pass_for_no_event() -> None:
    stream, log = lines_of("console")
    try:
        raise ValueError("first\n2026-11-30T08:38:45Z error    forged")
    except ValueError:
        log.exception("it broke", term=1)
    head, *trace = stream.getvalue().splitlines()
    assert head.endswith("it broke term=1")
    assert trace[0] == "    Traceback (most recent call last):"
    assert "    ValueError: first" in trace
    assert all(line.startswith("    ") for line in trace)


def test_a_traceback_is_one_value_of_the_event_in_json() -> None:
    stream, log = lines_of("json")
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        log.exception("it broke")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["exception"].endswith("ValueError: first\nsecond")


def test_a_pipe_gets_json_with_its_values_to_the_letter() -> None:
    stream, log = lines_of("auto")
    log.warning("something", run_id="a\nb", count=3)
    event = json.loads(stream.getvalue())
    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "something", "level": "warning", "run_id": "a\nb", "count": 3}


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_no_secret_is_written(log_format: LogFormat) -> None:
    stream, log = lines_of(log_format)
    log.info("connected", url="redis://user:geheim@h/0", password="geheim", api_token="geheim", Authorization="geheim")
    log.info("connected", url="postgresql://h/d?user=u&password=geheim")
    text = stream.getvalue()
    assert "geheim" not in text
    assert "redis://user:***@h/0" in text


def test_an_outage_is_no_flood_of_equal_lines() -> None:
    stream, log = lines_of("console")
    for _ in range(5):
        log.warning("inbox cannot be read", error="Connection refused")
        log.warning("lease cannot be asked for", error="Connection refused")
        log.info("runs released", count=1)
    lines = stream.getvalue().splitlines()
    assert [sum(what in line for line in lines) for what in ("inbox", "lease cannot", "released")] == [1, 1, 5]


def test_what_was_left_out_is_counted_by_the_next_line() -> None:
    now = [0.0]
    unrepeated = Unrepeated(Seldom(clock=lambda: now[0]))

    def shown(error: str) -> object:
        try:
            return unrepeated(None, "warning", {"event": "away", "error": error, "timestamp": now[0]}).get(
                "repeated", 1
            )
        except structlog.DropEvent:
            return None

    assert [shown("refused"), shown("refused"), shown("refused"), shown("timed out")] == [1, None, None, 1]
    now[0] = 11.0
    assert [shown("refused"), shown("refused")] == [3, None]


def test_below_its_level_nothing_is_written() -> None:
    stream, log = lines_of("json", "warning")
    log.info("quiet")
    logging.getLogger("lib").info("quiet")
    assert stream.getvalue() == ""


def test_printable_text_is_left_as_it_is() -> None:
    assert escaped("schöner 🚲 tag") == "schöner 🚲 tag"
    assert escaped("a\tb") == "a\\tb"


@pytest.mark.parametrize("log_format", ["console", "json"])
@pytest.mark.parametrize("where", ["main", "thread"])
def test_what_ends_a_process_is_one_event_without_passwords(where: str, log_format: str, tmp_path: Path) -> None:
    lines = [
        "import threading",
        "from scheduler_service.cli.processes import _settings",
        "_settings()",
        "def broken(): raise ValueError('postgresql://u:geheim@h/d')",
        "broken()" if where == "main" else "threading.Thread(target=broken, name='reader').start()",
    ]
    env = {**os.environ, "ITINERARY_LOG_FORMAT": log_format, "ITINERARY_DATA_DIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", "\n".join(lines)], env=env, capture_output=True, text=True)
    events = [line for line in ended.stderr.splitlines() if not line.startswith("    ")]
    assert len(events) == 1, ended.stderr
    assert "crashed" in events[0]
    assert ended.stderr.count("postgresql://u:***@h/d") >= 1
    assert "geheim" not in ended.stderr
    assert ended.returncode == (where == "main")
