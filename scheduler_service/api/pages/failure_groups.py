"""Failures in groups: those of one job with one error, from the first to the last. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from itinerary.protocol.instants import Instant
from scheduler_service.api.pages.moments import SHAPES, Moment, moment
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Trouble


@dataclass(frozen=True, slots=True)
class Kind:
    """The key of a group: the job (or the task of runs without one), the state and the error's type."""

    job_id: str | None
    task: str
    state: RunState
    error_type: str


@dataclass(frozen=True, slots=True)
class Group:
    """Failures of one kind, from the first to the last; `link` is the query of the page with exactly these."""

    kind: Kind
    link: str
    shape: str
    count: int
    first: Moment
    last: Moment
    last_run_id: str
    message: str

    @property
    def form(self) -> dict[str, str]:
        """Return the fields of the form that retries its runs."""
        return dict(parse_qsl(self.link, keep_blank_values=True))


def grouped(troubles: Iterable[Trouble], now: Instant, within: str) -> list[Group]:
    """Group failures, the latest first, by their kind."""
    kinds: dict[Kind, list[Trouble]] = {}
    for trouble in troubles:
        kinds.setdefault(kind_of(trouble), []).append(trouble)
    groups = [_group(kind, found, now, within) for kind, found in kinds.items()]
    return sorted(groups, key=lambda group: group.count, reverse=True)


def _group(kind: Kind, latest_first: Sequence[Trouble], now: Instant, within: str) -> Group:
    asked = {"within": within, "state": kind.state.value, "job_id": kind.job_id or "", "task": kind.task}
    last = latest_first[0]
    link = urlencode({**asked, "error_type": kind.error_type})
    return Group(
        kind, link, SHAPES[kind.state], len(latest_first), moment(latest_first[-1].finished_at, now),
        moment(last.finished_at, now), last.run_id, last.message or last.reason or "",
    )  # fmt: skip


def kind_of(trouble: Trouble) -> Kind:
    """Return the group of a failure."""
    if trouble.state is RunState.MISSED:
        return Kind(trouble.job_id, trouble.task, trouble.state, "")
    return Kind(trouble.job_id, trouble.task, trouble.state, trouble.error_type or (trouble.reason or "").split(":")[0])
