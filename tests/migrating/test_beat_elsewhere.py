"""Apps whose beat keeps its schedule outside `beat_schedule`: told where it is, and the command that reads it."""

import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery
from celery.beat import PersistentScheduler

from itinerary.apps.beat_scheduler import scheduler_of
from itinerary.protocol.errors import ItineraryError
from scheduler_service.migrating.beat_elsewhere import refuse_elsewhere
from tests.support.processes import CHECKOUT, project_env

DJANGOS = "django_celery_beat.schedulers:DatabaseScheduler"


class OwnScheduler(PersistentScheduler):
    """A scheduler of somebody's own."""


def refused(scheduler: str, **conf: str) -> str:
    app = Celery("shop", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.update(beat_scheduler=scheduler, **conf)
    with pytest.raises(ItineraryError) as exc:
        refuse_elsewhere(scheduler_of(app), "shop:app", "itinerary jobs import-beat shop:app")
    return str(exc.value)


@pytest.mark.parametrize("scheduler", ["celery.beat:PersistentScheduler", "celery.beat.Scheduler"])
def test_celerys_own_schedulers_read_the_config(scheduler: str) -> None:
    app = Celery("shop", set_as_current=False)
    app.conf.beat_scheduler = scheduler
    refuse_elsewhere(scheduler_of(app), "shop:app", "itinerary jobs import-beat shop:app")


def test_django_celery_beat_is_told_by_its_name_although_django_is_not_configured() -> None:
    said = refused(DJANGOS)
    assert "django-celery-beat's tables" in said
    assert "itinerary jobs import-beat shop:app --from-database postgresql://USER:PASSWORD@HOST/DATABASE" in said


@pytest.mark.parametrize("scheduler", ["redbeat.RedBeatScheduler", "redbeat.schedulers:RedBeatScheduler"])
def test_redbeats_redis_and_prefix_are_in_the_command(scheduler: str) -> None:
    said = refused(scheduler, redbeat_redis_url="redis://:secret@cache:7000/2", redbeat_key_prefix="shop:")
    assert "RedBeat's keys shop:*" in said
    assert "--from-redbeat 'redis://:***@cache:7000/2' --redbeat-prefix shop:" in said
    assert said.endswith("shop:")
    assert "--from-redbeat redis://127.0.0.1:1/0" in refused(scheduler)


@pytest.mark.parametrize(
    ("scheduler", "named"),
    [
        (f"{__name__}:OwnScheduler", "OwnScheduler"),
        ("sqlalchemy_celery_beat.schedulers:DatabaseScheduler", "sqlalchemy_celery_beat"),
    ],
)
def test_a_scheduler_of_another_making_is_refused_by_its_name(
    scheduler: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or sys.modules[OwnScheduler.__module__])
    said = refused(scheduler)
    assert named in said
    assert "--only-config" in said


DJANGO_APP = f"""
import django
from django.conf import settings
from celery import Celery

settings.configure(INSTALLED_APPS=["django_celery_beat"], DATABASES={{"default": DATABASE}}, SECRET_KEY="x")
django.setup()
app = Celery("proj")
app.conf.beat_scheduler = "{DJANGOS}"
"""
SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/app/db.sqlite3"}
POSTGRES = {
    "ENGINE": "django.db.backends.postgresql", "NAME": "shop", "USER": "me", "PASSWORD": "secret", "HOST": "db",
    "PORT": "5433",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database", "url"),
    [(SQLITE, "sqlite:////srv/app/db.sqlite3"), (POSTGRES, "postgresql://me:PASSWORD@db:5433/shop")],
)
def test_djangos_own_database_is_in_the_command(tmp_path: Path, database: dict[str, str], url: str) -> None:
    pytest.importorskip("django_celery_beat", reason="django-celery-beat is not installed: install the group `test`")
    (tmp_path / "proj.py").write_text(DJANGO_APP.replace("DATABASE}", f"{database!r}}}"))
    ended = subprocess.run(
        [sys.executable, "-m", "scheduler_service.cli", "shadow", "proj:app"],
        env=project_env(PYTHONPATH=f"{tmp_path}:{CHECKOUT}"), capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 1
    assert f"itinerary shadow proj:app --from-database {url}" in ended.stderr
    assert "secret" not in ended.stderr
