"""Arguments that name a secret: the task has the value, and nothing that is stored or told has it."""

import json
import logging
import re
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from itinerary.protocol.redaction import DEFAULT_KEYS, use_keys
from itinerary.worker.hiding import Hiding, hide_in_logs, task_ended, values_by_name
from itinerary.worker.plain import plain_error, plain_result
from itinerary.worker.secret_arguments import SecretRefused, concealed, holds_secret, resolve
from scheduler_service.core.leader.messages import Failed, Succeeded
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.processes import PATIENCE, wait_until
from tests.support.worker_process import Bench, dispatched

SECRET = "s3cr3t-value-of-the-tests"
ENV = {"ITINERARY_SECRET_ENV_NAMES": "API_KEY, OTHER", "API_KEY": SECRET, "HOME": "/root"}


def test_references_are_replaced_wherever_they_stand_and_known_by_their_value(tmp_path: Path) -> None:
    (tmp_path / "db-password").write_text("from a file\n")
    args: list[Any] = [1, {"$env": "API_KEY"}, {"a": [{"$secret": "db-password"}], "$env": 1, "b": 2}]
    kwargs: dict[str, Any] = {"headers": {"Authorization": {"$env": "API_KEY"}}}
    assert holds_secret(args)
    known = resolve(args, kwargs, ENV | {"ITINERARY_SECRET_FOLDER": str(tmp_path)})
    assert args == [1, SECRET, {"a": ["from a file"], "$env": 1, "b": 2}]
    assert kwargs == {"headers": {"Authorization": SECRET}}
    assert known == {SECRET: {"$env": "API_KEY"}, "from a file": {"$secret": "db-password"}}
    assert concealed([args, kwargs], known)[1] == {"headers": {"Authorization": {"$env": "API_KEY"}}}


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ({"$env": "HOME"}, "HOME is not allowed: add it to ITINERARY_SECRET_ENV_NAMES"),
        ({"$env": "OTHER"}, "OTHER is not set"),
        ({"$env": ""}, "must name a secret"),
        ({"$env": ["API_KEY"]}, "must name a secret"),
        ({"$secret": "x"}, "set ITINERARY_SECRET_FOLDER"),
    ],
)
def test_what_is_not_allowed_or_missing_is_refused_by_name_and_nothing_is_changed(
    reference: dict[str, Any], says: str
) -> None:
    args: list[Any] = [{"$env": "API_KEY"}, reference]
    with pytest.raises(SecretRefused, match=says) as refused:
        resolve(args, {}, ENV)
    assert args == [{"$env": "API_KEY"}, reference]
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "..", "sub/../../outside", "missing", "empty"])
def test_a_file_outside_the_folder_is_never_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_text(SECRET)
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "empty").write_text("\n")
    with pytest.raises(SecretRefused):
        resolve([{"$secret": name}], {}, {"ITINERARY_SECRET_FOLDER": str(folder)})


def test_known_values_are_hidden_inside_texts_the_longest_first() -> None:
    assert Hiding(["long", "longsecret"])("a longsecret, and long") == "a ***, and ***"
    assert Hiding(["b"])("a b c") == "a b c"  # so short a value would hide half of any text


@pytest.mark.parametrize(
    "value", ['it\'s "quoted"', "with/slash & blank", "line one of it\nline two of it", "a\t\t\\ü€"]
)
def test_a_value_is_hidden_however_an_error_spells_it(value: str) -> None:
    spelled = [
        value, repr(value), repr({"k": value}), repr(f'"{value}'), json.dumps(value), quote(value), quote_plus(value),
        quote(value, safe=""), textwrap.indent(value, "  | "), str(KeyError(value)),
    ]  # fmt: skip
    for text in spelled:
        shown = Hiding([value])(text)
        left = [part for part in re.split(r"[^a-zü€]+", shown) if len(part) > 3]
        assert left == [], (text, shown)


def test_a_value_at_the_place_where_a_text_is_cut_is_hidden_whole() -> None:
    hide = Hiding([SECRET])
    error = plain_error(RuntimeError("x" * 2040 + SECRET + "y" * 40_000), hide)
    result = plain_result(["x" * 4090 + SECRET + "y" * 100_000], hide)
    odd = plain_result(type("Odd", (), {"__repr__": lambda self: "x" * 505 + SECRET + "y" * 2000})(), hide)
    for text in (error["message"], error["traceback"], str(result), str(odd)):
        assert "s3cr" not in text
        assert "-the-tests" not in text


def test_a_log_record_of_celery_holds_no_value_in_any_part(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("celery.app.trace")
    hide_in_logs(Hiding([SECRET]), {})
    try:
        raise RuntimeError(f"no {SECRET}")
    except RuntimeError:
        log.exception("it said %(exc)s", {"exc": SECRET}, extra={"data": {"exc": SECRET, "id": 1}})
    try:
        raise RuntimeError("open")
    except RuntimeError:
        log.exception("nothing to hide")
    task_ended()
    log.error("of another task: %s", SECRET)
    first, second, third = caplog.records
    assert SECRET not in f"{vars(first)} {first.getMessage()}"
    assert "RuntimeError: no ***" in first.getMessage()
    assert second.exc_info is not None
    assert third.getMessage() == f"of another task: {SECRET}"


def test_texts_under_hidden_names_are_known_at_any_depth_and_others_not() -> None:
    args = [{"a": [{"dbPassword": "one"}]}, "two"]
    kwargs = {"X-Api-Key": ["three", {"x": "four"}], "user": "five", "token": 6, "secret": None}
    assert sorted(values_by_name([args, kwargs])) == ["four", "one", "three"]
    assert [holds_secret(value) for value in (args, kwargs, ["two", {"user": 1}], {})] == [True, True, False, False]


@contextmanager
def events_of(bench: Bench) -> Iterator[list[dict[str, Any]]]:
    """What Celery tells its monitors meanwhile."""
    told: list[dict[str, Any]] = []
    with bench.app.connection_for_read() as connection:
        receiver = bench.app.events.Receiver(connection, handlers={"*": told.append})
        listening = threading.Thread(target=receiver.capture, kwargs={"limit": None, "wakeup": False})
        listening.start()
        wait_until(lambda: told, what=lambda: "no heartbeat event came")
        yield told
        receiver.should_stop = True
        listening.join(60)


@pytest.fixture
def own_names() -> Iterator[str]:
    use_keys(["password", "pin_code"])  # as the leader, which sends the texts of the arguments
    yield "password, pin_code"
    use_keys(DEFAULT_KEYS)


@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_what_stands_under_a_hidden_name_is_in_no_error_log_event_or_span(
    redis_url: str, tmp_path: Path, pool: str, own_names: str
) -> None:
    password, key = 'p4ss "of" the/db', "k3y-of-the-team"
    who = {"user": "root", "db_password": password, "x": [{"pinCode": key}]}
    with OtlpReceiver() as collector, Bench(redis_url, tmp_path) as bench:
        traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        worker = bench.worker("-c", "1", "-E", "-P", pool, ITINERARY_REDACT_KEYS=own_names, **traced)
        with events_of(bench) as told:
            bench.publish(dispatched("failing", "user.logs_in", 0, kwargs=who))
            failed = bench.report_of("failing", Failed)
            bench.publish(dispatched("cut", "user.logs_in", 2000, kwargs=who))
            cut = bench.report_of("cut", Succeeded)
            bench.publish(dispatched("whole", "user.logs_in", 1, kwargs={**who, "x": None}))
            whole = bench.report_of("whole", Succeeded)
            wait_until(lambda: [e for e in told if e["type"] == "task-succeeded"][1:], what=lambda: repr(told))
        worker.wait_for_line("cannot log in as root with ***")
        worker.wait_for_line("user.logs_in[whole")
        wait_until(lambda: len(collector.spans) == 3, what=lambda: repr(collector.spans))
        assert "cannot log in as root with ***" in failed.error["message"]
        for shown in (failed, cut, told, worker.output, collector.spans, *bench.client().scan_iter("*result*")):
            for part in ("p4ss", "k3y", "the/db", "the%2Fdb"):
                assert part not in str(shown), shown
        # A result is stored as it was returned; whoever shows it hides what stands under such a name.
        assert whole.result["whole"][0]["db_password"] == password


@pytest.mark.redis
@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_celery_tells_no_value_in_its_events_nor_of_what_it_runs(redis_url: str, tmp_path: Path, pool: str) -> None:
    pause = "7654.321"
    with Bench(redis_url, tmp_path) as bench:
        bench.own_worker("-c", "2", "-P", pool, ITINERARY_SECRET_ENV_NAMES="API_KEY,PAUSE", API_KEY=SECRET, PAUSE=pause)
        with events_of(bench) as told:
            bench.publish(
                dispatched("failing", "itinerary.fail", kwargs={"message": {"$env": "API_KEY"}}),
                dispatched("sleeping", "itinerary.sleep", kwargs={"seconds": {"$env": "PAUSE"}}),
            )
            bench.report_of("failing", Failed)
            wait_until(lambda: "task-failed" in {event["type"] for event in told}, what=lambda: repr(told))
        active = lambda: repr(bench.app.control.inspect(timeout=PATIENCE, limit=1).active())  # noqa: E731
        running = wait_until(lambda: "sleeping" in (now := active()) and now, what="it to sleep")
    (failed,) = [event for event in told if event["type"] == "task-failed"]
    assert "RuntimeError('***')" in failed["exception"]
    assert SECRET not in repr(told)
    assert pause not in running


@pytest.mark.redis
@pytest.mark.slow
def test_a_task_has_the_value_and_no_report_and_no_log_shows_it(redis_url: str, tmp_path: Path) -> None:
    with Bench(redis_url, tmp_path) as bench:
        worker = bench.own_worker("-c", "1", ITINERARY_SECRET_ENV_NAMES="API_KEY", API_KEY=SECRET)
        reference = {"$env": "API_KEY"}
        bench.publish(dispatched("echoed", "itinerary.echo", "x", kwargs={"key": reference}))
        done = bench.report_of("echoed", Succeeded)
        assert done.result == {"args": ["x"], "kwargs": {"key": reference}}
        bench.publish(dispatched("failing", "itinerary.fail", kwargs={"message": reference}))
        failed = bench.report_of("failing", Failed)
        assert SECRET not in repr(failed)
        assert failed.error["message"] == "***"
        bench.publish(dispatched("refused", "itinerary.echo", {"$env": "PATH"}))
        refused = bench.report_of("refused", Failed)
        assert "PATH is not allowed: add it to ITINERARY_SECRET_ENV_NAMES" in refused.error["message"]
        worker.wait_for_line("raised unexpected: RuntimeError('***')")
        assert SECRET not in worker.output
