"""`celery -A APP call TASK ...` as the fields of a job, and a job as such a call. Pure."""

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, Final

from itinerary.protocol.instants import SECOND, Duration
from itinerary.protocol.run_fields import DEFAULT_PRIORITY
from scheduler_service.core.model import Job
from scheduler_service.migrating.converted import CannotConvert
from scheduler_service.migrating.exported import overlap_differences

_APP: Final = ("-A", "--app")
_KNOWN: Final = {
    "-Q": "queue",
    "--queue": "queue",
    "-a": "args",
    "--args": "args",
    "-k": "kwargs",
    "--kwargs": "kwargs",
    "--expires": "start_within",
}


def sending_command(job: Job, app: str) -> tuple[list[str], list[str]]:
    """The command that sends the job's task, and what it does not send."""
    differences = overlap_differences(job)
    differences += ["timeout: `celery call` sends no time limit"] if job.timeout is not None else []
    differences += ["priority: `celery call` sends none"] if job.priority != DEFAULT_PRIORITY else []
    differences += ["headers: `celery call` sends none"] if job.headers else []
    words = ["celery", "-A", app, "call", job.task, "--queue", job.queue]
    words += ["--args", json.dumps(list(job.args))] if job.args else []
    words += ["--kwargs", json.dumps(dict(job.kwargs))] if job.kwargs else []
    words += ["--expires", _seconds(job.start_within)] if job.start_within is not None else []
    return words, differences


def _seconds(duration: Duration) -> str:
    return f"{duration // SECOND}.{duration % SECOND:06d}".rstrip("0").removesuffix(".")


def celery_call(words: Sequence[str]) -> dict[str, Any] | None:
    """The task, its arguments and queue; None for any other command, CannotConvert for a call that has no equal."""
    rest = list(words)
    if not rest or PurePath(rest.pop(0)).name != "celery":
        return None
    if rest and rest[0] in _APP:
        del rest[:2]
    elif rest and rest[0].startswith("--app="):
        del rest[0]
    if len(rest) < 2 or rest[0] != "call":
        return None
    fields: dict[str, Any] = {"task": rest[1]}
    options = [part for word in rest[2:] for part in (word.split("=", 1) if word.startswith("--") else [word])]
    if len(options) % 2:
        raise CannotConvert(f"its options of celery call, {' '.join(options)}, are not understood")
    for option, value in zip(options[::2], options[1::2], strict=True):
        name = _KNOWN.get(option)
        if name is None:
            raise CannotConvert(f"{option} of celery call has no equal here")
        fields[name] = _read(option, name, value)
    return fields


def _read(option: str, name: str, value: str) -> Any:
    if name == "queue":
        return value
    try:
        read = json.loads(value)
    except ValueError as exc:
        raise CannotConvert(f"{option} of celery call, {value!r}, is no JSON") from exc
    if name == "start_within":
        return f"{read}s"
    if not isinstance(read, list if name == "args" else dict):
        raise CannotConvert(f"{option} of celery call, {value!r}, is no {'list' if name == 'args' else 'object'}")
    return read
