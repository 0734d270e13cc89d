"""`jobs import-crontab`, `import-kubernetes` and `import-systemd`: files that other schedulers read, as jobs."""

from pathlib import Path
from typing import Annotated

import typer

from scheduler_service.cli.applying import TakeOver
from scheduler_service.cli.beat_sources import text_of
from scheduler_service.cli.importing import Apply, Partly, Source, finish, now, owner_of
from scheduler_service.cli.status import Json

Queue = Annotated[str | None, typer.Option(help="Queue of the jobs.")]


def import_crontab(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A crontab; - for standard input (crontab -l).")],
    task: Annotated[str, typer.Option(help="Your task that runs a command; given `command` and `stdin`.")],
    system: Annotated[
        bool | None, typer.Option("--system/--user", help="Whether lines name a user; by default, in /etc.")
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="Zone of the lines; default this machine's.")] = None,
    queue: Queue = None,
    apply: Apply = False,
    partly: Partly = False,
    source: Source = None,
    take_over: TakeOver = False,
    as_json: Json = False,
) -> None:
    """Translate a crontab and show each difference; with --apply, create those jobs."""
    from scheduler_service.migrating.crontab_file import MOST_BYTES, NOTES, read_crontab
    from scheduler_service.migrating.local_zone import local_zone

    of_system = file.startswith("/etc/") if system is None else system
    found = read_crontab(
        text_of(file, "FILE", MOST_BYTES),
        task=task,
        timezone=local_zone(timezone),
        now=now(),
        system=of_system,
        queue=queue,
    )
    finish(found, NOTES, source or owner_of("crontab", file), apply, partly, take_over, as_json)


def import_kubernetes(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Manifests; - for kubectl get cronjobs -A -o yaml.")],
    task: Annotated[
        str | None, typer.Option(help="Your task that runs a command; given `command` and `env`.", show_default=False)
    ] = None,
    timezone: Annotated[str, typer.Option(help="Zone of CronJobs that name none.")] = "UTC",
    queue: Queue = None,
    apply: Apply = False,
    partly: Partly = False,
    source: Source = None,
    take_over: TakeOver = False,
    as_json: Json = False,
) -> None:
    """Translate Kubernetes CronJobs and show each difference; with --apply, create those jobs.

    A pod that runs `celery call` becomes a job of that task; every other command is given to --task.
    """
    from scheduler_service.core.schedules.zones import zone
    from scheduler_service.migrating.kubernetes_file import MOST_BYTES, NOTES, read_kubernetes

    found = read_kubernetes(
        text_of(file, "FILE", MOST_BYTES), task=task, timezone=zone(timezone).key, now=now(), queue=queue
    )
    finish(found, NOTES, source or owner_of("kubernetes", file), apply, partly, take_over, as_json)


def import_systemd(
    place: Annotated[
        str, typer.Argument(metavar="PLACE", help="A folder of units, a .timer file, or - for systemctl cat.")
    ],
    task: Annotated[str, typer.Option(help="Your task that runs a command; given `command` and `env`.")],
    timezone: Annotated[str | None, typer.Option(help="Zone of the timers; default this machine's.")] = None,
    queue: Queue = None,
    apply: Apply = False,
    partly: Partly = False,
    source: Source = None,
    take_over: TakeOver = False,
    as_json: Json = False,
) -> None:
    """Translate systemd's timers and their services, and show each difference; with --apply, create those jobs."""
    from scheduler_service.migrating.local_zone import local_zone
    from scheduler_service.migrating.systemd_timers import NOTES, read_timers
    from scheduler_service.migrating.systemd_units import MOST_BYTES, units_in, units_of

    units = units_of(text_of(place, "PLACE", MOST_BYTES)) if place == "-" else units_in(Path(place))
    only = Path(place).name if place.endswith(".timer") else None
    found = read_timers(units, task=task, timezone=local_zone(timezone), now=now(), queue=queue, only=only)
    finish(found, NOTES, source or owner_of("systemd", place), apply, partly, take_over, as_json)
