"""Somebody's Celery app with a beat schedule of every kind; it knows nothing of this product."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from celery import Celery
from celery.beat import BeatLazyFunc
from celery.schedules import crontab, schedule, solar

app = Celery("shop", broker="redis://127.0.0.1:1/0")
app.conf.update(
    timezone="Europe/Paris",
    task_routes={"shop.mail": {"queue": "mail"}},
)


class Fortnight(schedule):
    """A schedule of somebody's own."""


@app.task(name="shop.report")
def report(*args: object, **kwargs: object) -> str:
    return "reported"


@app.task(name="shop.mail", rate_limit="10/m")
def mail(to: str) -> str:
    return to


def yesterday() -> datetime:
    return datetime.now(UTC) - timedelta(days=1)


def present() -> datetime:
    return datetime.now(UTC)


app.conf.beat_schedule = {
    "every quarter": {"task": "shop.report", "schedule": crontab(minute="*/15"), "args": (1, 2)},
    "13th and Friday": {"task": "shop.report", "schedule": crontab(0, 0, day_of_month="13", day_of_week="friday")},
    "odd steps": {"task": "shop.report", "schedule": crontab(minute="50-10/7", hour="22-2", month_of_year="march")},
    "in the gap": {"task": "shop.report", "schedule": crontab(minute=30, hour=2)},
    "every 30 s": {"task": "shop.mail", "schedule": 30.0, "kwargs": {"to": "me"}},
    "daily": {"task": "shop.report", "schedule": timedelta(days=1), "relative": True},
    "expiring": {
        "task": "shop.report",
        "schedule": crontab(minute=5),
        "options": {"expires": 90, "queue": "slow", "priority": 3, "soft_time_limit": 60, "countdown": 5},
    },
    "own clock": {"task": "shop.report", "schedule": crontab(hour=7, minute=0, nowfun=present)},
    "no such task": {"task": "shop.gone", "schedule": crontab(hour=7, minute=0)},
    "at sunset": {"task": "shop.report", "schedule": solar("sunset", 48.86, 2.35)},
    "own schedule": {"task": "shop.report", "schedule": Fortnight(timedelta(days=14))},
    "false clock": {"task": "shop.report", "schedule": crontab(minute=0, nowfun=yesterday)},
    "half a second": {"task": "shop.report", "schedule": 0.5},
    "lazy": {"task": "shop.report", "schedule": 60, "args": (BeatLazyFunc(present),)},
    "typed": {
        "task": "shop.report",
        "schedule": 60,
        "args": (Decimal("1.10"), UUID(int=1), b"\x00\xff"),
        "kwargs": {"since": datetime(2026, 1, 1, tzinfo=UTC), "marked": {"__type__": "x", "__value__": 1}},
    },
    "Räume auf": {"task": "Räume auf / now", "schedule": 60},
    "not JSON": {"task": "shop.report", "schedule": 60, "args": (object(),)},
    "once": {"task": "shop.report", "schedule": 60, "options": {"eta": datetime(2027, 1, 1, tzinfo=UTC)}},
}


@app.on_after_configure.connect
def add_by_code(sender: Celery, **_: object) -> None:
    sender.add_periodic_task(crontab(hour=3, minute=0), report.s("by code"), name="by code")
