"""`jobs import-crontab`, `import-kubernetes`, `import-systemd`, `import-apscheduler` and `import-rq`."""

from typing import Annotated

import typer

from scheduler_service.cli.app_process import AppInterpreter
from scheduler_service.cli.beat_sources import FromJson
from scheduler_service.cli.importing import Imported, importing
from scheduler_service.cli.other_sources import of_apscheduler, of_crontab, of_kubernetes, of_rq, of_systemd

Queue = Annotated[str | None, typer.Option(help="Queue of the jobs.")]
System = Annotated[
    bool | None, typer.Option("--system/--user", help="Whether lines of a crontab name a user; by default, in /etc.")
]
Unpickle = Annotated[
    bool, typer.Option("--unpickle", help="Read stored jobs too: this runs whatever code their store holds.")
]
_Called = Annotated[
    str | None,
    typer.Option("--task", help="Your task that calls a function; given `function`, `args`, `kwargs`.",
                 show_default=False),
]  # fmt: skip


@importing()
def import_crontab(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A crontab; - for standard input (crontab -l).")],
    task: Annotated[str, typer.Option(help="Your task that runs a command; given `command` and `stdin`.")],
    system: System = None,
    timezone: Annotated[str | None, typer.Option(help="Zone of the lines; default this machine's.")] = None,
    queue: Queue = None,
) -> Imported:
    """Translate a crontab and show each difference; with --apply, create those jobs."""
    return of_crontab(file, task=task, system=system, timezone=timezone, queue=queue)


@importing()
def import_kubernetes(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Manifests; - for kubectl get cronjobs -A -o yaml.")],
    task: Annotated[
        str | None, typer.Option(help="Your task that runs a command; given `command` and `env`.", show_default=False)
    ] = None,
    timezone: Annotated[str, typer.Option(help="Zone of CronJobs that name none.")] = "UTC",
    queue: Queue = None,
) -> Imported:
    """Translate Kubernetes CronJobs and show each difference; with --apply, create those jobs.

    A pod that runs `celery call` becomes a job of that task; every other command is given to --task.
    """
    return of_kubernetes(file, task=task, timezone=timezone, queue=queue)


@importing()
def import_systemd(
    place: Annotated[
        str, typer.Argument(metavar="PLACE", help="A folder of units, a .timer file, or - for systemctl cat.")
    ],
    task: Annotated[str, typer.Option(help="Your task that runs a command; given `command` and `env`.")],
    timezone: Annotated[str | None, typer.Option(help="Zone of the timers; default this machine's.")] = None,
    queue: Queue = None,
) -> Imported:
    """Translate systemd's timers and their services, and show each difference; with --apply, create those jobs."""
    return of_systemd(place, task=task, timezone=timezone, queue=queue)


@importing()
def import_apscheduler(
    place: Annotated[
        str | None,
        typer.Argument(metavar="[MODULE:SCHEDULER]", help="Your scheduler; it is not started.", show_default=False),
    ] = None,
    from_json: FromJson = None,
    python: AppInterpreter = None,
    unpickle: Unpickle = False,
    task: _Called = None,
    queue: Queue = None,
) -> Imported:
    """Translate the jobs of APScheduler 3 and show each difference; with --apply, create those jobs.

    Read from the scheduler of a module, here or as JSON from its own environment (--from-json, --python). Its jobs are
    those that the module adds, and those of its job stores.
    """
    return of_apscheduler(place, from_json=from_json, python=python, unpickle=unpickle, task=task, queue=queue)


@importing()
def import_rq(
    url: Annotated[str, typer.Argument(metavar="URL", help="The Redis of rq-scheduler; it is only read.")],
    timezone: Annotated[
        str | None, typer.Option(help="Zone of the machine on which rq-scheduler runs; default this one's.")
    ] = None,
    task: _Called = None,
    queue: Annotated[str | None, typer.Option(help="Queue of the jobs; default that of rq.")] = None,
) -> Imported:
    """Translate the jobs of rq-scheduler and show each difference; with --apply, create those jobs."""
    return of_rq(url, task=task, timezone=timezone, queue=queue)
