"""The places from which imports and `shadow` read other schedulers than beat, each read by one function.

Each takes what the command line was given, and returns the entries with the notes for all and their owner here.
"""

from pathlib import Path

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant, format_instant
from scheduler_service.cli.app_process import exported_by
from scheduler_service.cli.beat_sources import text_of
from scheduler_service.cli.importing import Imported, now, owner_of


def of_crontab(
    file: str, *, task: str, system: bool | None = None, timezone: str | None = None, queue: str | None = None
) -> Imported:
    """Read a crontab; files in /etc name a user in each line unless `system` says otherwise."""
    from scheduler_service.migrating.crontab_file import MOST_BYTES, NOTES, read_crontab
    from scheduler_service.migrating.local_zone import local_zone

    of_system = file.startswith("/etc/") if system is None else system
    text = text_of(file, "FILE", MOST_BYTES)
    found = read_crontab(text, task=task, timezone=local_zone(timezone), now=now(), system=of_system, queue=queue)
    return Imported(found, NOTES, owner_of("crontab", file))


def of_kubernetes(file: str, *, task: str | None, timezone: str, queue: str | None = None) -> Imported:
    """Read manifests."""
    from scheduler_service.core.schedules.zones import zone
    from scheduler_service.migrating.kubernetes_file import MOST_BYTES, NOTES, read_kubernetes

    text = text_of(file, "FILE", MOST_BYTES)
    found = read_kubernetes(text, task=task, timezone=zone(timezone).key, now=now(), queue=queue)
    return Imported(found, NOTES, owner_of("kubernetes", file))


def of_systemd(place: str, *, task: str, timezone: str | None = None, queue: str | None = None) -> Imported:
    """Read the timers and services of a folder, of one timer, or of standard input."""
    from scheduler_service.migrating.local_zone import local_zone
    from scheduler_service.migrating.systemd_timers import NOTES, read_timers
    from scheduler_service.migrating.systemd_units import MOST_BYTES, units_in, units_of

    units = units_of(text_of(place, "PLACE", MOST_BYTES)) if place == "-" else units_in(Path(place))
    only = Path(place).name if place.endswith(".timer") else None
    found = read_timers(units, task=task, timezone=local_zone(timezone), now=now(), queue=queue, only=only)
    return Imported(found, NOTES, owner_of("systemd", place))


def of_apscheduler(
    place: str | None,
    *,
    task: str | None,
    from_json: str | None = None,
    python: str | None = None,
    unpickle: bool = False,
    queue: str | None = None,
    span: tuple[Instant, Instant] | None = None,
) -> Imported:
    """Read a scheduler in its own environment, or its JSON; with a `span`, also its times within."""
    from scheduler_service.migrating.apscheduler_export import MOST_BYTES, NOTES, read_apscheduler

    if from_json is not None and place is None:
        text: str | bytes = text_of(from_json, "--from-json", MOST_BYTES)
    elif place is not None and from_json is None:
        more = ["--unpickle"] if unpickle else []
        more += ["--between", *map(format_instant, span)] if span else []
        text = exported_by("export-apscheduler", place, python, *more)
    else:
        raise BadValue("MODULE:SCHEDULER", place, "name your scheduler, or --from-json FILE")
    named, found = read_apscheduler(text, from_json or str(place), task=task, queue=queue, now=now())
    return Imported(found, NOTES, f"apscheduler:{named}")


def of_rq(url: str, *, task: str | None, timezone: str | None = None, queue: str | None = None) -> Imported:
    """Read rq-scheduler's Redis."""
    from scheduler_service.migrating.local_zone import local_zone
    from scheduler_service.migrating.rq_scheduler import NOTES, place_of, read_rq

    found = read_rq(url, task=task, queue=queue, timezone=local_zone(timezone), now=now())
    return Imported(found, NOTES, f"rq-scheduler:{place_of(url)}")
