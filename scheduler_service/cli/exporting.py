"""`itinerary jobs export`: stored jobs as a job file, or in the formats of other schedulers."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from itinerary.protocol.errors import BadValue, ItineraryError
from scheduler_service.cli.connect import open_client

if TYPE_CHECKING:
    from scheduler_service.migrating.exported import Refused

Format = Literal["toml", "yaml", "json", "beat", "crontab", "kubernetes", "systemd"]
_FORMATS = "toml, yaml, json: to apply again. The others: for those schedulers, exactly or not at all."


def export(
    source: Annotated[str | None, typer.Option(help="Only jobs of this source.", show_default=False)] = None,
    format: Annotated[Format, typer.Option(help=_FORMATS)] = "toml",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file, for systemd a folder; default standard output.")
    ] = None,
    nearest: Annotated[
        bool, typer.Option("--nearest", help="Write also what is not exactly the same, each difference as a comment.")
    ] = False,
    image: Annotated[str | None, typer.Option(help="Image of Kubernetes' pods.", show_default=False)] = None,
    celery_app: Annotated[
        str | None, typer.Option(help="MODULE:APP by which pods or services send tasks.", show_default=False)
    ] = None,
) -> None:
    """Write the stored jobs as a file that applies without changes, once its hidden values are filled in.

    For another scheduler: only jobs that the format can express. The others are named on stderr, each with its
    reason, and the status is 1.
    """
    if format in ("toml", "yaml", "json"):
        _write(_own_text(source, format), output)
        return
    if format == "kubernetes" and image is None:
        raise BadValue("--image", None, "name the image in which the pods find the commands, or your app and celery")
    text, refused = _their_text(format, _stored(source), nearest, image or "", celery_app)
    if format == "systemd" and output is not None:
        _write_units(text, output)
    else:
        _write(text, output)
    for each in refused:
        print(f"itinerary: {each.job_id} is not written: {each.why}", file=sys.stderr)
    if refused:
        if not nearest:
            print("itinerary: --nearest writes what is close, with the differences as comments", file=sys.stderr)
        raise typer.Exit(1)


def _stored(source: str | None) -> list[dict[str, Any]]:
    with open_client() as client:
        return [dict(job) for job in client.all_jobs(source=source)]


def _monitors(source: str | None) -> list[dict[str, Any]]:
    """Return the monitors of the source, or all; a limited token sees none."""
    from itinerary.client.transport import ApiError

    with open_client() as client:
        try:
            found = client.monitors()
        except ApiError as error:
            if error.status != 403:
                raise
            return []
    return [dict(one) for one in found if source is None or one.source == source]


def _own_text(source: str | None, format: Literal["toml", "yaml", "json"]) -> str:
    from itinerary.protocol import redaction
    from scheduler_service.jobs_as_code.texts import write_text_as
    from scheduler_service.jobs_as_code.writing import short_body, short_monitor

    jobs = [short_body(job) for job in _stored(source)]
    monitors = {one["monitor_id"]: short_monitor(one) for one in _monitors(source)}
    text = write_text_as(format, source or "", jobs, monitors)
    if hiding := [job["job_id"] for job in jobs if redaction.MASK in json.dumps(job)]:
        named = ", ".join(hiding[:10]) + (f" and {len(hiding) - 10} more" if len(hiding) > 10 else "")
        advice = 'put the value, or a reference such as {"$secret": "NAME"}, in its place before you apply the file'
        print(f"itinerary: hidden values stand as {redaction.MASK} in jobs {named}: {advice}", file=sys.stderr)
    return text


def _their_text(
    format: str, bodies: Sequence[Mapping[str, Any]], nearest: bool, image: str, celery_app: str | None
) -> "tuple[str, list[Refused]]":
    from scheduler_service.migrating.exported import jobs_of

    now = time.time_ns() // 1_000
    jobs = jobs_of(bodies, now)
    if format == "beat":
        from scheduler_service.migrating.export_beat import export_beat

        return export_beat(jobs, now, nearest=nearest)
    if format == "crontab":
        from scheduler_service.migrating.export_crontab import export_crontab

        return export_crontab(jobs, now, nearest=nearest)
    if format == "systemd":
        from scheduler_service.migrating.export_systemd import export_systemd

        return export_systemd(jobs, celery_app, now, nearest=nearest)
    from scheduler_service.migrating.export_kubernetes import Cluster, export_kubernetes

    return export_kubernetes(jobs, Cluster(image, celery_app), now, nearest=nearest)


def _write_units(text: str, folder: Path) -> None:
    """Write a file for each unit, as systemd wants them."""
    from scheduler_service.migrating.export_systemd import units_in_text

    if not folder.is_dir():
        raise BadValue("--output", str(folder), "name a folder that exists for the units, such as /etc/systemd/system")
    for name, unit in units_in_text(text).items():
        _write(unit, folder / name)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as exc:
        raise ItineraryError(f"{output} cannot be written: {exc.strerror}") from exc
