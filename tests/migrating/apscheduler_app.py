"""A scheduler of APScheduler 3 with jobs of every kind; nothing starts it."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import-untyped]
from apscheduler.triggers.combining import OrTrigger  # type: ignore[import-untyped]
from apscheduler.triggers.cron import CronTrigger  # type: ignore[import-untyped]
from celery import Celery

BERLIN = ZoneInfo("Europe/Berlin")
app = Celery("shop", set_as_current=False)
scheduler = BackgroundScheduler(timezone=BERLIN)


@app.task(name="apscheduler.mail")
def mail(to: str) -> str:
    return to


def report(*_: object, **__: object) -> None:
    """A function that is no task."""


scheduler.add_job(
    report, "cron", hour=2, minute=30, id="aps-nightly", args=[1], kwargs={"a": "b"}, name="Nightly report"
)
scheduler.add_job(report, "cron", day_of_week=0, hour=9, id="monday", misfire_grace_time=None)
scheduler.add_job(report, "cron", day="2nd fri", hour=9, id="second friday", max_instances=3, coalesce=False)
scheduler.add_job(report, "cron", week="5", id="week 5")
scheduler.add_job(report, "cron", minute="*/20", jitter=90, id="jittered", misfire_grace_time=30, coalesce=True)
scheduler.add_job(report, "interval", minutes=25, id="every 25")
scheduler.add_job(report, "interval", hours=1, id="from then", start_date=datetime(2026, 1, 1, 0, 7, tzinfo=BERLIN))
scheduler.add_job(report, "interval", seconds=0.5, id="twice a second")
scheduler.add_job(report, "date", run_date=datetime(2031, 5, 1, 9, 0, tzinfo=BERLIN), id="aps-once")
scheduler.add_job(report, OrTrigger([CronTrigger(hour=1), CronTrigger(hour=5, minute=5)]), id="either")
scheduler.add_job(mail.delay, "cron", hour=7, id="mail", args=["me"])
scheduler.add_job(mail.apply_async, "cron", hour=7, id="applied", args=[["me"]])
scheduler.add_job(lambda: None, "cron", hour=7, id="nameless")
scheduler.add_job(report, "cron", hour=7, id="object", args=[object()])
scheduler.add_job(report, "cron", hour=7, id="paused", next_run_time=None)
scheduler.add_job(
    report, "cron", hour=4, id="aps-bounded", start_date=datetime(2031, 1, 1, tzinfo=BERLIN),
    end_date=datetime(2031, 1, 1, tzinfo=BERLIN) + timedelta(days=9, hours=4),
)  # fmt: skip
