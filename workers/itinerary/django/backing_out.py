"""Back to django-celery-beat: its rows are told what ran here, then the service forgets their jobs.

Promises: beat neither sends again nor makes up for what ran here. Changes nothing unless it is asked to; interrupted
anywhere, it is repeated.
"""

import argparse
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.core.management.base import CommandError
from django.db import transaction
from django.db.models import F, Q
from django.utils.timezone import make_naive

from itinerary.client.results.jobs import ListedJob
from itinerary.client.sync import Client
from itinerary.django.enqueueing import client
from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import parse_instant, to_datetime

_SOURCES: Final = "django-celery-beat:"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row's name, when its task last ran here, and whether that was its only time."""

    name: str
    is_there: bool
    last_run_at: datetime | None
    is_over: bool


def run(options: Sequence[str], write: Callable[[str], Any]) -> None:
    """Show when each row last ran here; with --apply, stop the jobs, store that in the rows, and delete the jobs."""
    parser = argparse.ArgumentParser(prog="manage.py itinerary back-out", description=__doc__)
    parser.add_argument("--apply", action="store_true", help="do it; without it nothing is changed")
    parser.add_argument("--source", help=f"the owner of the jobs, where several begin with {_SOURCES}")
    asked = parser.parse_args(options)
    if not apps.is_installed("django_celery_beat"):
        raise CommandError("django_celery_beat is not in INSTALLED_APPS: there is no table to go back to")
    try:
        _back_out(client(), asked.source, asked.apply, write)
    except ItineraryError as exc:
        raise CommandError(str(exc)) from exc


def _back_out(service: Client, named: str | None, apply: bool, write: Callable[[str], Any]) -> None:
    jobs = list(service.all_jobs(source=named))
    source = named or _only_source(jobs)
    own = [job.job_id for job in jobs if job.source == source]
    if not own:
        raise CommandError(f"the service has no job of {source}")
    if apply:
        for job_id in own:
            service.pause_job(job_id, "backed out")  # what is due from here on is beat's
    names = set(_model("PeriodicTask").objects.values_list("name", flat=True))
    entries = [_entry(job, names) for job in service.all_jobs(source=source, with_runs=True)]
    for entry in entries:
        ran = f"last ran here at {entry.last_run_at}" if entry.last_run_at else "has not run here"
        over = ", its only time: it is disabled there" if entry.is_over else ""
        write(f"{entry.name}  {ran}{over if entry.is_there else '; no row has this name'}")
    if not apply:
        write("nothing was changed; --apply stores these times in the rows and deletes the jobs")
        return
    # If we die here, the jobs are paused: the next call reads the same runs.
    _tell(entries)
    # If we die here, the rows know and the jobs are paused: the next call deletes them.
    service.apply_jobs(source, [], prune=True)
    write(f"{len(own)} jobs of {source} are deleted; start beat again")


def _only_source(jobs: Sequence[ListedJob]) -> str:
    found = sorted({job.source for job in jobs if job.source and job.source.startswith(_SOURCES)})
    if len(found) != 1:
        owners = ", ".join(found) or "none"
        raise CommandError(f"the jobs of one {_SOURCES}... were expected, found {owners}: name the owner by --source")
    return found[0]


def _model(name: str) -> Any:
    return apps.get_model("django_celery_beat", name)


def _entry(job: ListedJob, names: Container[str]) -> Entry:
    last = None if job.last_run is None else job.last_run.scheduled_at
    is_once = job.schedule["kind"] == "once"
    is_over = is_once and last is not None and last >= to_datetime(parse_instant(job.schedule["at"]))
    name = job.title or job.job_id
    return Entry(name, name in names, last, is_over)


def _tell(entries: Sequence[Entry]) -> None:
    tasks = _model("PeriodicTask")
    with transaction.atomic(using=tasks.objects.db):
        for entry in entries:
            if entry.last_run_at is None:
                continue
            last = entry.last_run_at if settings.USE_TZ else make_naive(entry.last_run_at)
            older = Q(last_run_at__isnull=True) | Q(last_run_at__lt=last)
            tasks.objects.filter(older, name=entry.name).update(last_run_at=last)
            if entry.is_over:
                over = {"enabled": False, "total_run_count": F("total_run_count") + 1}
                tasks.objects.filter(name=entry.name, enabled=True).update(**over)
        _model("PeriodicTasks").update_changed()  # a beat that runs reads its rows again
