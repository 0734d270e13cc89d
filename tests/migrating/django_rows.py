"""`fill` makes django-celery-beat's tables in a process of its own, and rows of every kind through its models.

The first argument is the database's URL. Standard input holds a list of crontabs, each a row `cron N`; where it is
empty the rows are those of `SHOP`.
"""

import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from tests.support.processes import CHECKOUT, project_env


def fill(url: str, crontabs: list[dict[str, str]] | None = None) -> str:
    """The URL, once a process of its own has filled that database."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.migrating.django_rows", url],
        input=json.dumps(crontabs or []), env=project_env(PYTHONPATH=CHECKOUT), capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return url


def database(url: str) -> dict[str, Any]:
    if url.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
    at = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql", "NAME": at.path[1:], "USER": at.username or "",
        "PASSWORD": at.password or "", "HOST": at.hostname, "PORT": at.port,
    }  # fmt: skip


def shop(models: Any, task: str = "shop.report") -> None:
    def cron(zone: str, **fields: str) -> Any:
        return models.CrontabSchedule.objects.create(timezone=ZoneInfo(zone), **fields)

    def add(name: str, **fields: Any) -> Any:
        return models.PeriodicTask.objects.create(name=name, task=task, **fields)

    nightly = cron("America/New_York", minute="30", hour="2")
    ten = models.IntervalSchedule.objects.create(every=10, period="minutes")
    add(
        "nightly", crontab=nightly, queue="slow", priority=3, expire_seconds=600, args='["a"]', kwargs='{"n": 1}',
        description="Counts.",
    )  # fmt: skip
    add(
        "quarter", crontab=cron("Europe/Paris", minute="*/15"), headers='{"tenant": "x"}', exchange="e", routing_key="r"
    )
    add("ten", interval=ten)
    models.PeriodicTask.objects.filter(name="ten").update(last_run_at=datetime(2026, 11, 27, 9, 55, 3, tzinfo=UTC))
    tiny = models.IntervalSchedule.objects.create(every=10, period="microseconds")
    add("tiny", interval=tiny)
    add("sun", solar=models.SolarSchedule.objects.create(event="sunset", latitude=50, longitude=8))
    for name, year in (("at new year", 2027), ("at old year", 2026)):
        at = models.ClockedSchedule.objects.create(clocked_time=datetime(year, 1, 1, tzinfo=UTC))
        add(name, clocked=at, one_off=True)
    add("off", interval=ten, enabled=False)
    start, end = datetime(2027, 1, 5, tzinfo=UTC), datetime(2027, 2, 5, tzinfo=UTC)
    add("once", crontab=nightly, one_off=True, start_time=start)
    add("bounded", crontab=nightly, start_time=start, expires=end)
    add("interval from", interval=ten, start_time=start)
    add("expired", crontab=nightly, expires=datetime(2026, 1, 1, tzinfo=UTC))
    add("sent", crontab=nightly, one_off=True)
    models.PeriodicTask.objects.filter(name="sent").update(total_run_count=1)
    add("no args", crontab=nightly, args="[")
    add("no zone", crontab=nightly)
    add("two kinds", crontab=nightly)
    models.PeriodicTask.objects.filter(name="two kinds").update(interval=ten)


def main(url: str) -> None:
    import django
    from django.conf import settings
    from django.core.management import call_command

    settings.configure(
        INSTALLED_APPS=["django_celery_beat"], DATABASES={"default": database(url)}, USE_TZ=True, SECRET_KEY="x",
        TIME_ZONE="Europe/Berlin",
    )  # fmt: skip
    django.setup()
    call_command("migrate", verbosity=0)
    from django_celery_beat import models

    given = json.loads(sys.stdin.read() or "[]")
    for number, fields in enumerate(given):
        zone = ZoneInfo(fields.pop("timezone"))
        cron = models.CrontabSchedule.objects.create(timezone=zone, **fields)
        models.PeriodicTask.objects.create(name=f"cron {number:03d}", task="shop.report", crontab=cron)
    if not given:
        shop(models)


if __name__ == "__main__":
    main(sys.argv[1])
