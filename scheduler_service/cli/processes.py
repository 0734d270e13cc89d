"""The commands that run a process: up, leader, worker, api, flower, and the one-shots migrate and doctor.

Each reads the settings first, so that an invalid setting is reported before anything starts. Each imports its heavy
parts itself.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from itinerary.protocol.errors import BadValue
from scheduler_service.cli.progress import shown, spinner

if TYPE_CHECKING:
    from scheduler_service.config.settings import Settings

Port = Annotated[int | None, typer.Option(help="Port of the API and dashboard.", min=1, max=65535)]
DataDir = Annotated[Path | None, typer.Option(help="Folder for all stored data.", file_okay=False)]
CeleryApp = Annotated[str | None, typer.Option(help="Your own Celery app, as module:celery_app.")]

WorkerPython = Annotated[
    str | None,
    typer.Option(
        metavar="PATH", help="The interpreter that runs the worker, of your app's environment.", show_default=False
    ),
]


def up(
    demo: Annotated[bool, typer.Option(help="Add example jobs of each kind.")] = False,
    app: CeleryApp = None,
    worker_python: WorkerPython = None,
    port: Port = None,
    data_dir: DataDir = None,
) -> None:
    """Run everything on this machine: Redis, database, leader, worker, API, Flower. Ctrl-C stops it."""
    from scheduler_service.local.up import run_up
    from scheduler_service.runtime.app_python import app_python

    settings = _settings(api_port=port, data_dir=data_dir)
    python = app_python(worker_python, "--worker-python")
    words = {"app": app, "worker-python": worker_python, "port": port}
    given = {name: value for name, value in words.items() if value is not None}
    sys.exit(run_up(settings, demo=demo, app=app, worker_python=python, given=given))


def leader() -> None:
    """Run a leader; more leaders are standbys."""
    from scheduler_service.bootstrap.parts import run_leader

    run_leader(_beside_up())


def api(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Port = None,
    openapi: Annotated[bool, typer.Option("--openapi", help="Print the OpenAPI document instead.")] = False,
) -> None:
    """Run the REST API and the dashboard."""
    if openapi:
        from scheduler_service.api.app import describe

        print(describe(), end="")
        return
    from scheduler_service.api.http.serve import serve

    serve(_beside_up(api_host=host, api_port=port))


def worker(
    context: typer.Context,
    app: CeleryApp = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", "-c", help="Processes.", min=1)] = None,
    queues: Annotated[str | None, typer.Option("--queues", "-Q", help="Queues, separated by commas.")] = None,
) -> None:
    """Run a Celery worker: the built-in tasks, or your own app's. Passes other options on to Celery."""
    from scheduler_service.cli.beside_up import worker_variables

    known = worker_variables(_settings(logs=False))
    arguments = [*_option("--app", app), *_option("-c", concurrency), *_option("-Q", queues), *context.args]
    # Pass on at once what a task prints, in a pipe too.
    # -P: the working directory may have a package of the same name as one of ours.
    _become([sys.executable, "-P", "-m", "itinerary", *arguments], {"PYTHONUNBUFFERED": "1", **known, **os.environ})


def flower(port: Port = None) -> None:
    """Run Flower, behind a login: it does not start without ITINERARY_FLOWER_PASSWORD."""
    settings = _beside_up(logs=False, flower_port=port)
    from scheduler_service.flower_server.serve import serve_flower

    serve_flower(settings)


def migrate(
    to: Annotated[
        str | None, typer.Option(help="This version instead; an older one drops data that it does not know.")
    ] = None,
) -> None:
    """Bring the database's schema up to date."""
    from scheduler_service.runtime.addresses import shown_url
    from scheduler_service.sql.migrations import migrate_to, upgrade

    settings = _settings()
    if to == "base":
        raise BadValue("--to", to, "that would drop every table; name a version, such as 0006")
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    with spinner("migrating") as report:
        tell = report if shown() else lambda line: print(line, flush=True)  # into a job's log
        if to is None:
            upgrade(settings.leader_database_url, tell)
        else:
            migrate_to(settings.leader_database_url, to, tell)
    print(f"the schema of {shown_url(settings.database_url)} is {'up to date' if to is None else f'at version {to}'}")


def doctor(
    invariants: Annotated[bool, typer.Option("--invariants", help="Check the whole history instead.")] = False,
    log: Annotated[Path | None, typer.Option(help="The workers' own record, to compare the history with.")] = None,
    since: Annotated[str | None, typer.Option(help="Leave out occurrences before this time.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check settings, database, Redis, leader and workers; say what to do about each."""
    if invariants:
        from itinerary.protocol.instants import parse_instant
        from scheduler_service.cli.invariants import judge

        start = None if since is None else parse_instant(since, "--since")
        sys.exit(judge(_settings(logs=False), log, start, as_json=as_json))
    if log is not None or since is not None:
        raise BadValue("--log, --since", "given", "they go with --invariants")
    from scheduler_service.cli.doctor import examine

    sys.exit(examine(_settings(logs=False), as_json=as_json))


def _beside_up(*, logs: bool = True, **given: Any) -> "Settings":
    """Read the settings; the Redis of the `up` that runs on the data folder is the default."""
    from scheduler_service.cli.beside_up import as_up_runs_it

    return as_up_runs_it(_settings(logs=logs, **given))


def _settings(*, logs: bool = True, **given: Any) -> "Settings":
    from scheduler_service.config.settings import load_settings
    from scheduler_service.observability.logs import configure_logs, log_crashes

    settings = load_settings(**given)
    if logs:
        configure_logs(settings.log_format, settings.log_level)
        log_crashes()
    for sentence in settings.advice():
        print(f"itinerary: settings: {sentence}", file=sys.stderr)
    return settings


def _option(name: str, value: object) -> list[str]:
    return [] if value is None else [name, str(value)]


def _become(argv: list[str], environ: Mapping[str, str]) -> None:
    try:
        os.execve(argv[0], argv, environ)
    except OSError as exc:
        raise BadValue("command", argv[0], f"it cannot be started: {exc.strerror}") from exc
