"""The filters of lists as typed into an address, shared by the lists and their downloads. Only reads."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from fastapi import Depends, Query

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant
from scheduler_service.api.pages.typed_times import check_order, read_typed_time
from scheduler_service.api.pages.wrong import Reader
from scheduler_service.core.contract.fields import read_text
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.lists import JobFilter, RunFilter

RUN_LABELS: Final = {
    "job_id": "Job", "queue": "Queue", "since": "From ({zone})", "until": "To ({zone})", "state": "States",
    "task": "Task", "limit_name": "Limit", "limit_key": "Key of a limit",
}  # fmt: skip
JOB_LABELS: Final = {
    "q": "Search", "tag": "Tag", "queue": "Queue", "task": "Task", "paused": "Show", "source": "Source",
    "last_state": "Last run",
}  # fmt: skip
_RUN_TEXTS: Final = ("job_id", "queue", "task", "limit_name", "limit_key")
_JOB_TEXTS: Final = ("q", "tag", "queue", "task", "paused", "source")
_PAUSED: Final = {"": None, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class RunsAsked:
    """The filter of a list of runs, as typed."""

    job_id: Annotated[str, Query(max_length=128)] = ""
    state: Annotated[list[str] | None, Query()] = None
    queue: Annotated[str, Query(max_length=128)] = ""
    task: Annotated[str, Query(max_length=255)] = ""
    limit_name: Annotated[str, Query(max_length=128)] = ""
    limit_key: Annotated[str, Query(max_length=256)] = ""
    since: Annotated[str, Query(max_length=40)] = ""
    until: Annotated[str, Query(max_length=40)] = ""

    def pairs(self) -> list[tuple[str, str]]:
        """Return the parameters of the address that are not empty."""
        given = [(name, getattr(self, name)) for name in (*_RUN_TEXTS, "since", "until")]
        return [(name, value) for name, value in (*given, *(("state", one) for one in self.state or ())) if value]

    def read(self, reader: Reader, now: Instant) -> RunFilter:
        """Read the filter; `reader` keeps the error of each field."""
        states = tuple(filter(None, (reader.tried(partial(_state, name)) for name in self.state or () if name)))
        texts = {name: reader.tried(partial(_text, getattr(self, name), name)) for name in _RUN_TEXTS}
        since, until = (
            reader.tried(partial(read_typed_time, text, name, now)) if text else None
            for name, text in (("since", self.since), ("until", self.until))
        )
        reader.tried(partial(check_order, since, until, self.until))
        return RunFilter(
            texts["job_id"], states, texts["queue"], since, until, task=texts["task"], limit_name=texts["limit_name"],
            limit_key=texts["limit_key"],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class JobsAsked:
    """The filter of a list of jobs, as typed."""

    q: Annotated[str, Query(max_length=200)] = ""
    tag: Annotated[str, Query(max_length=100)] = ""
    paused: Annotated[str, Query(max_length=20)] = ""
    source: Annotated[str, Query(max_length=128)] = ""
    queue: Annotated[str, Query(max_length=128)] = ""
    task: Annotated[str, Query(max_length=255)] = ""
    last_state: Annotated[list[str] | None, Query()] = None

    def pairs(self) -> list[tuple[str, str]]:
        """Return the parameters of the address that are not empty."""
        given = [(name, getattr(self, name)) for name in _JOB_TEXTS]
        return [(name, value) for name, value in (*given, *(("last_state", s) for s in self.last_state or ())) if value]

    def read(self, reader: Reader) -> JobFilter:
        """Read the filter; `reader` keeps the error of each field."""
        tag, text, source, queue, task = (
            reader.tried(partial(_text, getattr(self, name), name)) for name in ("tag", "q", "source", "queue", "task")
        )
        states = (reader.tried(partial(_state, name, "last_state")) for name in self.last_state or () if name)
        return JobFilter(
            tag, text, reader.tried(partial(_paused, self.paused)), source, queue=queue, task=task,
            last_states=tuple(filter(None, states)),
        )  # fmt: skip


RunsFilter = Annotated[RunsAsked, Depends()]
JobsFilter = Annotated[JobsAsked, Depends()]


def _text(text: str, field: str) -> str | None:
    return read_text(text, field) or None


def _paused(text: str) -> bool | None:
    if text not in _PAUSED:
        raise BadValue("paused", text, "choose all, active or paused")
    return _PAUSED[text]


def _state(name: str, field: str = "state") -> RunState:
    try:
        return RunState(name)
    except ValueError:
        raise BadValue(field, name, f"known are {', '.join(state.value for state in RunState)}") from None
