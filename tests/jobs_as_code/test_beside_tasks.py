"""Jobs that decorators declare beside their tasks, and how an app's are found."""

import gc
import inspect
import math
import re
import textwrap
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, Task, _state, shared_task

from itinerary import attach, schedule
from itinerary.jobs import Body, collect, placed
from itinerary.protocol.errors import BadValue, BadValues, ItineraryError
from scheduler_service.core.contract.job_json import FIELDS, definition_of, read_job
from scheduler_service.jobs_as_code.reading import read_place
from tests.support.processes import MANUAL, REPOSITORY

WEST = timezone(timedelta(hours=-5))
HERE = Path(__file__).relative_to(REPOSITORY)


@pytest.fixture
def app() -> Celery:
    return Celery("shop", set_as_current=False)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like Celery its shared tasks, we keep the jobs beside them for the life of the process."""
    # An app that another test made the current one, and closed, takes no shared task.
    monkeypatch.setattr(_state._tls, "current_app", None)
    schedule.declared.clear()
    monkeypatch.chdir(REPOSITORY)


def line() -> int:
    """The line that calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def by_id(app: Celery) -> dict[str, Body]:
    return {body["job_id"]: body for body in collect(app)}


def test_a_decorator_stands_above_or_below_the_tasks_own_several_times_and_on_bound_tasks(app: Celery) -> None:
    @schedule.cron("0 2 1 * *", timezone="Europe/Berlin", overlap="queue")
    @app.task(shared=False, name="shop.close")
    def close() -> None: ...

    first = line() + 3

    @app.task(shared=False, name="shop.report", bind=True)
    @schedule.hourly(17, job_id="report.17", args=["short"])
    @schedule.interval(timedelta(minutes=4), offset="1m", job_id="report.often", kwargs={"kind": "long"})
    def report(self: Any, kind: str) -> None: ...

    found = by_id(app)
    assert found["shop.close"] == {
        "job_id": "shop.close",
        "task": "shop.close",
        "overlap": "queue",
        "schedule": {"kind": "cron", "expr": "0 2 1 * *", "timezone": "Europe/Berlin"},
    }
    assert found["report.often"]["schedule"] == {"kind": "interval", "every": "4m", "offset": "1m"}
    assert (found["report.17"]["task"], found["report.17"]["args"]) == ("shop.report", ["short"])
    assert [found[name].place for name in ("report.17", "report.often")] == [f"{HERE}:{first}", f"{HERE}:{first + 1}"]


def test_each_kind_has_a_decorator_and_every_field_a_place(app: Celery) -> None:
    fields: dict[str, Any] = {
        "title": "T", "description": "D", "tags": ["x"], "args": [1], "kwargs": {"b": 2}, "queue": "q", "priority": 3,
        "start_at": datetime(2027, 1, 1, tzinfo=UTC), "end_at": "2028-01-01T00:00:00Z", "jitter": timedelta(seconds=5),
        "misfire": {"policy": "skip", "grace": timedelta(minutes=1)}, "overlap": "allow", "timeout": "5m",
        "retry": {"max_attempts": 3, "initial": timedelta(seconds=2)}, "start_within": "1h", "must_end_within": "2h",
        "ping": {"url": "https://example.org/a"}, "keep_logs": "all",
        "headers": {"tenant": "a"}, "limits": ["api", {"name": "tenant", "key": {"from": "kwargs.b"}}], "fair_key": "a",
        "calendars": {"exclude": ["holidays"]},
    }  # fmt: skip
    assert {*fields, "job_id", "task", "schedule"} == FIELDS, "a new field belongs into itinerary/jobs/fields.py"
    kinds = {
        "a": schedule.cron("0 0 13 * fri", day_match="and", dst_gap="skip", dst_fold="both", job_id="a", **fields),
        "q": schedule.cron("0 15 10 ? * 6L", dialect="quartz", job_id="q", **fields),
        "b": schedule.hourly(5, timezone="Asia/Tokyo", job_id="b", **fields),
        "c": schedule.interval("25m", anchor=datetime(2026, 1, 1, tzinfo=UTC), job_id="c", **fields),
        "d": schedule.balanced("25m", pinned=True, job_id="d", **fields),
        "e": schedule.calendar("month", "05:30", every=2, days=[31, -1], start="2026-01-31", job_id="e", **fields),
        "f": schedule.calendar("week", ["05:30", "06:00"], weekdays=["mon"], job_id="f", **fields),
        "k": schedule.calendar("month", "09:00", every=2, weekdays=["fri"], nth=[2], job_id="k", **fields),
        "g": schedule.once("2027-06-01T00:00:00", timezone="Europe/Berlin", job_id="g", **fields),
        "h": schedule.solar("sunset", latitude=52.52, longitude=13.405, job_id="h", **fields),
        "i": schedule.interval("90m", window={"from": "09:00", "until": "17:00"}, job_id="i", **fields),
        "l": schedule.rrule("FREQ=DAILY", "2027-01-01T09:00", exdate=[date(2027, 1, 3)], job_id="l", **fields),
        "j": schedule.any([{"kind": "cron", "expr": "0 9 * * *"}], job_id="j", **fields),
    }

    def task(a: int, b: int) -> None: ...

    for decorate in kinds.values():
        task = decorate(task)
    app.task(shared=False, name="t")(task)
    read = {name: definition_of(read_job(body, created_at=0)[0]) for name, body in by_id(app).items()}
    assert [read[name]["schedule"]["kind"] for name in sorted(read)] == [
        "cron", "hourly", "interval", "interval", "calendar", "calendar", "once", "solar",
        "interval", "any", "calendar", "rrule", "cron",
    ]  # fmt: skip
    assert read["a"]["schedule"]["dst_fold"] == "both"
    assert (read["d"]["schedule"]["balanced"], read["d"]["schedule"]["pinned"]) == (True, True)
    assert read["g"]["schedule"]["at"] == "2027-05-31T22:00:00Z"
    assert (read["a"]["start_at"], read["a"]["jitter"], read["a"]["misfire"]["grace"]) == (
        "2027-01-01T00:00:00Z",
        "5s",
        "1m",
    )
    assert read["b"]["retry"]["initial"] == "2s"


def test_a_datetime_without_an_offset_is_a_wall_time_of_the_jobs_zone(app: Celery) -> None:
    @schedule.once(datetime(2027, 6, 1, 2), timezone="Europe/Berlin")  # noqa: DTZ001
    @app.task(shared=False, name="t")
    def task() -> None: ...

    (body,) = collect(app)
    assert definition_of(read_job(body, created_at=0)[0])["schedule"]["at"] == "2027-06-01T00:00:00Z"


def test_a_worker_in_a_folder_that_is_gone_declares_all_the_same(
    app: Celery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    @schedule.hourly(1)
    @app.task(shared=False, name="t")
    def task() -> None: ...

    assert collect(app)[0].place.startswith(f"{REPOSITORY / HERE}:")


def test_arguments_keep_their_types(app: Celery) -> None:
    @schedule.hourly(1, kwargs={"rate": Decimal("1.10"), "days": (1, 2)})
    @app.task(shared=False, name="t")
    def task(rate: Decimal, days: list[int]) -> None: ...

    (body,) = collect(app)
    assert body["kwargs"] == {"rate": {"$type": "decimal", "$value": "1.10"}, "days": [1, 2]}


def test_classes_of_tasks_have_jobs_too_attached_or_not(app: Celery) -> None:
    @schedule.hourly(1)
    class Close(Task[Any, Any]):
        name = "shop.close"

        def run(self) -> None: ...

    class CloseMore(Close):
        name = "shop.close_more"

    app.register_task(CloseMore())
    with pytest.raises(BadValues, match=r"test_beside_tasks\.py:\d+: task: 'Close' .* app\.register_task"):
        collect(app)
    app.register_task(Close())
    assert [body["task"] for body in collect(app)] == ["shop.close"]
    attach(app, "redis://127.0.0.1:1/0")
    assert [body["task"] for body in collect(app)] == ["shop.close"]


def test_a_shared_task_is_found_though_the_current_app_lacks_it(app: Celery) -> None:
    current = Celery("closed")
    current.finalize()
    current.close()

    @schedule.hourly(5)
    @shared_task(name="shop.later")
    def later() -> None: ...

    assert [body["task"] for body in collect(app)] == ["shop.later"]


def test_a_shared_task_has_its_jobs_in_every_app(app: Celery) -> None:
    @schedule.hourly(1)
    @shared_task(name="shop.shared")
    def above() -> None: ...

    @shared_task(name="shop.shared_below")
    @schedule.hourly(2)
    def below() -> None: ...

    other = Celery("other", set_as_current=False)
    for each in (app, other):
        assert {body["task"] for body in collect(each)} == {"shop.shared", "shop.shared_below"}


def test_an_app_has_its_own_jobs_and_decorating_evaluates_no_task(app: Celery) -> None:
    other = Celery("other", set_as_current=False)

    @schedule.hourly(1)
    @app.task(shared=False, name="shop.mine")
    def mine() -> None: ...

    @other.task(shared=False, name="shop.others")
    @schedule.hourly(1)
    def others() -> None: ...

    assert not app.configured
    assert not mine.__evaluated__()
    assert [body["task"] for body in collect(app)] == ["shop.mine"]
    assert [body["task"] for body in collect(other)] == ["shop.others"]


def test_a_task_that_celery_shares_between_apps_has_its_jobs_in_each(app: Celery) -> None:
    other = Celery("other", set_as_current=False)

    @schedule.hourly(1)
    @app.task(name="shop.above")
    def above() -> None: ...

    @app.task(name="shop.below")
    @schedule.hourly(1)
    def below() -> None: ...

    for each in (app, other):
        assert {body["task"] for body in collect(each)} == {"shop.above", "shop.below"}


def test_the_tasks_of_a_factory_keep_their_jobs_though_nothing_else_holds_them() -> None:
    gc.freeze()  # the search is for what this test leaves, not for garbage of others

    def create_app() -> Celery:
        app = Celery("made", set_as_current=False)

        @schedule.hourly(1)
        @app.task(shared=False, name="made.above")
        def above() -> None: ...

        @app.task(shared=False, name="made.below", autoretry_for=(OSError,))
        @schedule.hourly(2)
        def below() -> None: ...

        app.finalize()
        return app

    app = create_app()
    gc.collect()
    assert {body["task"] for body in collect(app)} == {"made.above", "made.below"}


def test_another_decorator_may_stand_between(app: Celery) -> None:
    def logged(function: Any) -> Any:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return call

    @app.task(shared=False, name="t")
    @logged
    @schedule.hourly(1)
    def task() -> None: ...

    assert [body["task"] for body in collect(app)] == ["t"]


def test_a_function_that_is_no_task_is_an_error_with_its_place(app: Celery) -> None:
    gc.freeze()  # as above
    at = line() + 2

    @schedule.hourly(1)
    def report() -> None: ...

    with pytest.raises(BadValues) as refused:
        collect(app)
    assert f"{HERE}:{at}: task: " in str(refused.value)
    assert "put it above @app.task or @shared_task" in str(refused.value)
    del report, refused
    gc.collect()
    assert collect(app) == [], "nobody can call it any more"


def test_jobs_take_the_timezone_of_their_app_unless_they_name_one(app: Celery) -> None:
    app.conf.timezone = "Europe/Berlin"

    @schedule.cron("0 2 * * *", job_id="a")
    @schedule.cron("0 2 * * *", job_id="b", timezone="UTC")
    @schedule.once("2027-01-01T00:00:00Z", job_id="c")
    @schedule.any([{"kind": "hourly", "minute": 1}], job_id="d")
    @app.task(shared=False, name="t")
    def task() -> None: ...

    found = by_id(app)
    assert found["d"]["schedule"]["of"] == [{"timezone": "Europe/Berlin", "kind": "hourly", "minute": 1}]
    assert [found[name]["schedule"].get("timezone") for name in "abc"] == ["Europe/Berlin", "UTC", None]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "missing a required argument: 'month'"),
        ({"args": [1, 2]}, "too many positional arguments"),
        ({"kwargs": {"moon": 1}}, "missing a required argument: 'month'"),
        ({"kwargs": {"month": 1, "moon": 1}}, "unexpected keyword argument 'moon'"),
    ],
)
@pytest.mark.parametrize("bind", [False, True])
def test_arguments_that_the_task_does_not_take_are_an_error_with_its_place(
    app: Celery, given: dict[str, Any], said: str, bind: bool
) -> None:
    def plain(month: int) -> None: ...

    def bound(self: Any, month: int) -> None: ...

    at = line() + 1
    schedule.hourly(1, **given)(app.task(shared=False, name="shop.close", bind=bind)(bound if bind else plain))
    with pytest.raises(BadValues) as refused:
        collect(app)
    (error,) = refused.value.errors
    assert str(error).startswith(f"{HERE}:{at}: job shop.close: the task shop.close cannot be called like that")
    assert said in str(error)
    assert "give args=[...] or kwargs={...}" in str(error)


def test_a_task_that_checks_no_arguments_of_calls_checks_none_here(app: Celery) -> None:
    @schedule.hourly(1)
    @app.task(shared=False, name="t", typing=False)
    def task(month: int) -> None: ...

    assert len(collect(app)) == 1


def test_two_jobs_of_one_id_are_an_error_that_names_both_places(app: Celery) -> None:
    at = line() + 2

    @schedule.hourly(1)
    @schedule.hourly(2)
    @app.task(shared=False, name="t")
    def task() -> None: ...

    with pytest.raises(BadValues) as refused:
        collect(app)
    assert str(refused.value) == (
        f"{HERE}:{at}: job_id: 't' is not accepted; duplicate job id, also at {HERE}:{at + 1}; "
        "give each an id of its own: job_id=..."
    )


def test_a_task_whose_name_is_no_id_needs_one(app: Celery) -> None:
    @schedule.hourly(1)
    @app.task(shared=False, name="close the month")
    def close() -> None: ...

    with pytest.raises(BadValues, match=r"job_id: 'close the month' .* give job_id="):
        collect(app)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: schedule.hourly(1, colour="red"), "colour: 'red' is not accepted; this field is not known"),
        (lambda: schedule.hourly(1, job_id="a b"), "job_id: 'a b'"),
        (lambda: schedule.once(datetime(2027, 1, 1)), "at: '2027-01-01T00:00:00' .* aware"),  # noqa: DTZ001
        (
            lambda: schedule.hourly(1, kwargs={"a": object()}),
            "kwargs: give plain values .a object cannot be",
        ),
        (lambda: schedule.hourly(1, args=[math.nan]), "args: give plain values"),
        (lambda: schedule.hourly(1, kwargs={"a": {(1, 2): 3}}), "kwargs: give plain values .*not tuple"),
        (lambda: schedule.hourly(1, tags={"a"}), "tags: give plain values .*set is not JSON"),
        (lambda: schedule.solar("sunset", latitude=math.nan, longitude=1), "latitude: give plain values"),
        (lambda: schedule.once(datetime.max.replace(tzinfo=WEST)), "at: give plain values"),
        (lambda: schedule.hourly(1)("shop.close"), "task: 'shop.close' .* decorate a Celery task"),
    ],
)
def test_what_is_wrong_by_itself_is_an_error_at_once_with_its_place(call: Any, said: str) -> None:
    with pytest.raises(BadValue, match=rf"^tests/jobs_as_code/test_beside_tasks\.py:\d+: {said}"):
        call()


def test_an_error_of_the_service_names_file_and_line_in_place_of_a_number() -> None:
    bodies = [Body("shop/tasks.py:3", {"job_id": "a"}), Body("shop/tasks.py:9", {"job_id": "b"})]
    message = "jobs.1.schedule.expr: '61 * * * *' is not accepted; jobs.0.queue: ''; jobs.7: 3 (HTTP 422)"
    assert placed(message, bodies) == (
        "shop/tasks.py:9: job b.schedule.expr: '61 * * * *' is not accepted; shop/tasks.py:3: job a.queue: ''; "
        "jobs.7: 3 (HTTP 422)"
    )


def test_the_manuals_program_and_each_decorator_of_its_table_declare_jobs_that_the_service_takes(app: Celery) -> None:
    page = (MANUAL / "jobs-as-code.md").read_text("utf-8").partition("\n## A file\n")[0]
    program = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
    exec(program, {"__name__": "shop.tasks"})
    names = {"shop.tasks.close_month", "report.hourly", "report.often"}
    examples = re.findall(r"^\| `(\w+)\(.*?`@(schedule\.\w+\(.*?\))`", page, re.MULTILINE)
    assert {name for name, _ in examples} == set(schedule.__all__)
    for number, (_, example) in enumerate(examples):
        eval(example, {"schedule": schedule})(app.task(shared=False, name=f"t{number}")(plain_task))
        names.add(f"t{number}")
    found = by_id(app)
    assert set(found) == names
    for body in found.values():
        read_job(body, created_at=0)


def plain_task() -> None:
    """A task of nothing."""


APP = """
from celery import Celery

app = Celery("there", set_as_current=False, include=["there_tasks"])
"""
TASKS = """
from celery import shared_task
from itinerary import schedule


@schedule.cron("0 2 1 * *")
@shared_task(name="there.close")
def close():
    pass


@schedule.cron("61 * * * *", priority=12)
@shared_task(name="there.wrong")
def wrong():
    pass
"""


def test_the_servers_command_reads_an_app_and_names_file_and_line_of_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there_app.py").write_text(textwrap.dedent(APP))
    (tmp_path / "there_tasks.py").write_text(textwrap.dedent(TASKS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadValues) as refused:
        read_place("there_app:app")
    wrong = [str(error) for error in refused.value.errors]
    assert {text.partition(" is not accepted")[0] for text in wrong} == {
        "there_tasks.py:12: job there.wrong.schedule.expr: '61 * * * *'",
        "there_tasks.py:12: job there.wrong.priority: 12",
    }
    schedule.declared[:] = [each for each in schedule.declared if not each.place.endswith(":12")]
    found = read_place("there_app:app")
    assert (found.source, [job["job_id"] for job in found.jobs]) == (None, ["there.close"])
    with pytest.raises(ItineraryError, match=r"a Schedule or a Celery app named nothing"):
        read_place("there_app:nothing")
