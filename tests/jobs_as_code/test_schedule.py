"""The Schedule that a Python module fills."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from celery import Celery

from itinerary.protocol.errors import BadValue, BadValues
from scheduler_service.core.contract.job_json import definition_of, read_job
from scheduler_service.jobs_as_code import Schedule

app = Celery("shop")


@app.task(name="shop.report", shared=False)
def report() -> None:
    """A task of somebody's app."""


def note(job_id: str, scheduled_at: datetime) -> None:
    """A plain function."""


def test_a_task_is_named_by_its_name_by_itself_or_by_a_function() -> None:
    schedule = Schedule()
    for number, task in enumerate(("shop.report", report, note, lambda job_id, at: None)):
        schedule.hourly(f"job-{number}", task=task, minute=17)
    names = [body["task"] for body in schedule.bodies]
    assert names[:2] == ["shop.report", "shop.report"]
    assert names[2] == f"{__name__}.note"
    assert names[3] == f"{__name__}.job-3"
    assert list(schedule.functions) == names[2:]
    assert schedule.celery_apps == [app]


def test_expression_minute_interval_and_time_may_be_given_by_position() -> None:
    schedule = Schedule()
    schedule.cron("a", "0 2 * * *", task="t")
    schedule.hourly("b", 5, task="t")
    schedule.interval("c", "4m", task="t")
    schedule.balanced("d", "25m", task="t", pinned=True)
    schedule.calendar("e", "month", "05:30", task="t", days=[-1])
    schedule.once("f", "2027-01-01T02:00:00", task="t", timezone="Europe/Berlin")
    schedule.solar("g", "sunset", task="t", latitude=52.52, longitude=13.405)
    specs = [definition_of(read_job(body, created_at=0)[0])["schedule"] for body in schedule.bodies]
    assert [spec["kind"] for spec in specs] == ["cron", "hourly", "interval", "interval", "calendar", "once", "solar"]
    assert (specs[3]["balanced"], specs[3]["pinned"], specs[4]["at"]) == (True, True, ["05:30"])
    assert specs[5]["at"] == "2027-01-01T01:00:00Z"


def test_a_function_may_take_the_job_and_its_time_the_job_or_nothing() -> None:
    schedule = Schedule()
    schedule.hourly("a", 1, task=lambda: None)
    schedule.hourly("b", 1, task=lambda job_id: None)
    schedule.hourly("c", 1, task=lambda job_id, at, note: None, kwargs={"note": "x"})
    assert len(schedule.functions) == 3
    with pytest.raises(BadValue, match=r"a function of \(job_id, scheduled_at\), of job_id or of nothing"):
        schedule.hourly("d", 1, task=lambda job_id, at, note: None)


def test_every_kind_of_schedule_can_be_said() -> None:
    schedule = Schedule("shop", timezone="Europe/Berlin", queue="slow")
    schedule.cron("a", task="t", expr="0 2 * * *", day_match="and", title="A")
    schedule.hourly("b", task="t", minute=5, timezone="UTC")
    schedule.interval("c", task="t", every=timedelta(minutes=4), offset="1m", timeout=timedelta(seconds=90))
    schedule.calendar("d", task="t", unit="month", at=["05:30"], days=[-1])
    schedule.once("e", task="t", at=datetime(2027, 1, 1, tzinfo=UTC), queue="fast")
    a, b, c, d, e = schedule.bodies
    assert (a["schedule"]["timezone"], a["queue"], a["title"]) == ("Europe/Berlin", "slow", "A")
    assert b["schedule"]["timezone"] == "UTC"
    assert (c["schedule"]["every"], c["timeout"]) == ("4m", "90s")
    assert d["schedule"]["days"] == [-1]
    assert (e["schedule"]["at"], e["queue"]) == ("2027-01-01T00:00:00Z", "fast")


def test_what_is_wrong_is_told_where_the_job_is_added_and_nothing_is_added() -> None:
    schedule = Schedule()
    with pytest.raises(BadValues, match="expr"):
        schedule.cron("a", task="t", expr="61 * * * *")
    with pytest.raises(BadValues, match="colour"):
        schedule.hourly("a", task="t", minute=1, colour="red")
    with pytest.raises(BadValue, match=r"kwargs.token: .* give the value itself"):
        schedule.hourly("a", task="t", minute=1, kwargs={"token": "[redacted]"})
    with pytest.raises(BadValue, match="paused"):
        schedule.hourly("a", task="t", minute=1, paused=True)
    with pytest.raises(BadValue, match="function of"):
        schedule.hourly("a", task=3, minute=1)
    with pytest.raises(BadValue, match="aware"):
        schedule.once("a", task="t", at=datetime(2027, 1, 1))  # noqa: DTZ001 - that is the point
    assert schedule.bodies == []
    schedule.hourly("a", task="t", minute=1)
    with pytest.raises(BadValue, match="duplicate job id"):
        schedule.hourly("a", task="t", minute=1)


def test_threads_may_add_jobs_at_once_and_a_listener_hears_of_each() -> None:
    schedule, heard = Schedule(), []
    schedule.hourly("before", task="t", minute=1)
    assert [body["job_id"] for body in schedule.watch(heard.append)] == ["before"]
    threads = [
        threading.Thread(target=lambda n=n: [schedule.hourly(f"{n}.{k}", task="t", minute=1) for k in range(20)])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(heard) == sorted(f"{n}.{k}" for n in range(4) for k in range(20))
    assert len(schedule.bodies) == 81


def test_a_job_that_the_running_program_cannot_take_in_is_not_there() -> None:
    schedule = Schedule()

    def refuse(job_id: str) -> None:
        raise RuntimeError(job_id)

    schedule.watch(refuse)
    with pytest.raises(RuntimeError):
        schedule.hourly("a", task="t", minute=1)
    schedule.watch(None)
    schedule.hourly("a", task="t", minute=1)


def test_a_line_with_seconds_has_the_fold_that_it_has_everywhere() -> None:
    schedule = Schedule()
    schedule.cron("by-code", task="t", expr="30 2 * * * 15")
    schedule.cron("as-said", task="t", expr="30 2 * * * 15", dst_fold="last")
    folds = [definition_of(read_job(body, created_at=0)[0])["schedule"]["dst_fold"] for body in schedule.bodies]
    assert folds == ["both", "last"]


def test_the_default_zone_is_that_of_each_member_of_a_union_that_names_none() -> None:
    schedule = Schedule("shop", timezone="Europe/Berlin")
    members = [
        {"kind": "hourly", "minute": 5},
        {"kind": "hourly", "minute": 7, "timezone": "UTC"},
        {"kind": "once", "at": "2027-01-01T00:00:00Z"},
    ]
    schedule.any("a", members, task="t")
    (spec,) = [body["schedule"] for body in schedule.bodies]
    assert [member.get("timezone") for member in spec["of"]] == ["Europe/Berlin", "UTC", None]
