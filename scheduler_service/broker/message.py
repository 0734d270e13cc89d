"""The Celery message of one run: the options of its kind, and the template that later runs of the kind fill.

Promises that a filled template equals, field by field, the message that Celery 5.7 would have sent (protocol 2, JSON).
Never talks to a broker.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, TypeAlias

import orjson
from celery import Celery

from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import SECOND, format_instant
from itinerary.protocol.message_headers import SHADOW
from itinerary.protocol.redaction import redacted
from itinerary.protocol.typed_values import careful, may_need_care
from itinerary.protocol.wire import (
    HEADER_ATTEMPT,
    HEADER_DUE_AT,
    HEADER_JOB_ID,
    HEADER_KEY_PREFIX,
    HEADER_LOGS,
    HEADER_PROTOCOL,
    HEADER_QUEUE,
    HEADER_RUN_ID,
    HEADER_SCHEDULED_AT,
    HEADER_SEQ,
    HEADER_TERM,
    HEADER_TRACE,
    PROTOCOL,
)
from scheduler_service.core.model import DispatchedRun

_Holes: TypeAlias = Callable[[Mapping[str, bytes]], tuple[bytes, ...]]
_HARD_AFTER_SOFT: Final = 10.0
SHOWN: Final = 200
# Names that no message has, as JSON writes them; a hole used as a member's name stands for several members.
_HOLE: Final = re.compile(rb'"\\u0000(\w+)\\u0000"(?::null)?')


@dataclass(frozen=True, slots=True)
class SendOptions:
    """The options that distinguish one kind of message from another; limits in seconds."""

    task: str
    queue: str
    soft_limit: float | None
    key_prefix: str = ""

    @classmethod
    def of(cls, run: DispatchedRun, key_prefix: str = "") -> "SendOptions":
        """The kind of this run."""
        return cls(run.task, run.queue, None if run.timeout is None else run.timeout / SECOND, key_prefix)

    @property
    def hard_limit(self) -> float | None:
        """Seconds until a task is killed: ten after its soft limit, in case it ignores that."""
        return None if self.soft_limit is None else self.soft_limit + _HARD_AFTER_SOFT

    def send(self, app: Celery, producer: Any, run: DispatchedRun) -> None:
        """Send the run with Celery's own `send_task`, through `producer`."""
        celery: Any = app  # its type stubs allow whole seconds only
        args, kwargs = careful(run.args, run.kwargs, json.dumps([list(run.args), dict(run.kwargs)]))
        whose = {HEADER_KEY_PREFIX: self.key_prefix} if self.key_prefix else {}
        celery.send_task(
            self.task,
            args,
            kwargs,
            task_id=task_id(run.run_id, run.attempt),
            queue=self.queue,
            producer=producer,
            headers={**headers_of(run), HEADER_PROTOCOL: PROTOCOL, HEADER_LOGS: True, **whose},
            retries=run.retries,
            soft_time_limit=self.soft_limit,
            time_limit=self.hard_limit,
            ignore_result=None,  # as the task says, which only its worker knows
            add_to_parent=False,
            retry=False,
            **_hiding(args, kwargs),
        )


def headers_of(run: DispatchedRun) -> dict[str, Any]:
    """The run's own and Itinerary headers, except those that are the same for all runs."""
    due_at = format_instant(run.due_at)
    headers = {
        SHADOW: None,
        **(run.headers or {}),
        HEADER_RUN_ID: run.run_id,
        HEADER_JOB_ID: run.job_id,
        HEADER_ATTEMPT: run.attempt,
        HEADER_SCHEDULED_AT: due_at if run.scheduled_at == run.due_at else format_instant(run.scheduled_at),
        HEADER_DUE_AT: due_at,
        HEADER_TERM: run.term,
        HEADER_SEQ: run.seq,
        HEADER_QUEUE: run.queue,
    }
    if run.traceparent is not None:
        headers[HEADER_TRACE] = run.traceparent
    return headers


@dataclass(frozen=True, slots=True)
class Template:
    """One message as kombu would push it, with holes for the values of a run, and the key of its list."""

    key: str
    pattern: bytes
    holes: _Holes

    def fill(self, run: DispatchedRun, delivery_tag: str) -> bytes:
        """The message of another run of the same kind; `delivery_tag` must be unique."""
        return self.pattern % self.holes(
            {
                "id": orjson.dumps(task_id(run.run_id, run.attempt)),
                "own_headers": orjson.dumps(headers_of(run))[1:-1],
                "retries": b"%d" % run.retries,
                "delivery_tag": orjson.dumps(delivery_tag),
                **(_arguments(run.args, run.kwargs) if run.args or run.kwargs else _NO_ARGUMENTS),
            }
        )


def _arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, bytes]:
    embed = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    text = json.dumps([list(args), dict(kwargs), embed])
    if may_need_care(text):
        args, kwargs = careful(args, kwargs, text)
        text = json.dumps([args, kwargs, embed])
    return {
        "body": b'"%b"' % base64.b64encode(text.encode()),
        "argsrepr": orjson.dumps(_shown(list(args) or ())),
        "kwargsrepr": orjson.dumps(_shown(dict(kwargs))),
    }


def _hiding(args: Any, kwargs: Any) -> dict[str, str]:
    """Short texts to send instead of Celery's own, if those would show a hidden value."""
    shown = {"argsrepr": (args, redacted(args)), "kwargsrepr": (kwargs, redacted(kwargs))}
    return {name: _shown(new) for name, (old, new) in shown.items() if new is not old}


def _shown(value: Sequence[Any] | Mapping[str, Any]) -> str:
    """The short text with which Flower and logs show arguments."""
    text = repr(redacted(value))
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


_NO_ARGUMENTS: Final = _arguments((), {})


def record_template(app: Celery, channel: Any, run: DispatchedRun, key_prefix: str = "") -> Template:
    """Record the message that Celery and kombu would push to Redis for `run` over this channel."""
    producer: Any = app.amqp.Producer(channel, auto_declare=False)
    recorder = _Recorder()
    producer._batch_local.current = recorder  # Producer.batch() keeps the batch of publish() here
    SendOptions.of(run, key_prefix).send(app, producer, run)
    [(key, text)] = recorder.pushed
    return Template(key, *_with_holes(json.loads(text), headers_of(run)))


def _with_holes(message: dict[str, Any], own_headers: Mapping[str, Any]) -> tuple[bytes, _Holes]:
    headers = {name: value for name, value in message["headers"].items() if name not in own_headers}
    headers |= {name: _hole(name) for name in ("id", "retries", "argsrepr", "kwargsrepr")}
    headers |= {"root_id": _hole("id"), _hole("own_headers"): None}
    properties = message["properties"] | {"correlation_id": _hole("id"), "delivery_tag": _hole("delivery_tag")}
    holed = message | {"body": _hole("body"), "headers": headers, "properties": properties}
    text = orjson.dumps(holed)
    names = [name.decode() for name in _HOLE.findall(text)]
    return _HOLE.sub(b"%b", text.replace(b"%", b"%%")), itemgetter(*names)


def _hole(name: str) -> str:
    return f"\0{name}\0"


class _Recorder:
    """A stand-in for kombu's publish batch that keeps the pushes instead of sending them."""

    def __init__(self) -> None:
        self.pushed: list[tuple[str, str]] = []

    def publish(self, channel: Any, message: Mapping[str, Any], **options: Any) -> None:
        channel.basic_publish(message, _publish_batch=self, **options)

    def add(self, command: str, *args: Any) -> None:
        if command != "lpush":
            raise RuntimeError(f"kombu would send {command} beside the message: a template holds one push")
        key, text = args
        self.pushed.append((key, text))
