"""What failed for good or was missed, grouped by job and error; a group's runs are tried again together.

Promises: a run that was tried again from here is not tried again by a second click on the same group: the new run's
key is made from the old run's id.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from uuid_utils.compat import uuid7

from scheduler_service.api.auth import Who
from scheduler_service.api.context import ApiContext, Context
from scheduler_service.api.pages.csrf import FormBody
from scheduler_service.api.pages.gaps import gap_line, gaps_words
from scheduler_service.api.pages.live import TROUBLES
from scheduler_service.api.pages.moments import SHAPES, Moment, moment
from scheduler_service.api.pages.shell import CHANGER, READER, PageRoute, go, page
from scheduler_service.api.problems import Problem
from scheduler_service.core.audit import Caller
from scheduler_service.core.errors import NotFound
from scheduler_service.core.instants import DAY, HOUR, Instant
from scheduler_service.core.model import NewRun
from scheduler_service.core.run_requests import again
from scheduler_service.core.run_state import RunState
from scheduler_service.ports.history import Trouble

WITHIN: Final = {"1h": HOUR, "24h": DAY, "7d": 7 * DAY}
Within = Literal["1h", "24h", "7d"]
_AT_ONCE: Final = 100
_GAPS: Final = 50
_GROUPS: Final = 100
_HASH: Final = "tried again from the page of failures"

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Kind:
    """What makes failures a group: the job (or the task of runs without one), the state and the error's type."""

    job_id: str | None
    task: str
    state: RunState
    error_type: str


@dataclass(frozen=True, slots=True)
class Group:
    """Failures of one kind, from the first seen to the last."""

    kind: Kind
    shape: str
    count: int
    first: Moment
    last: Moment
    last_run_id: str
    said: str


@router.get("/failures")
def show_failures(request: Request, context: Context, within: Annotated[Within, Query()] = "24h") -> Response:
    """The groups, the largest first."""
    now = context.clock()
    troubles = context.stores.history.troubles(now - WITHIN[within], TROUBLES)
    gaps, groups = context.stores.history.gaps(now - WITHIN[within], TROUBLES), grouped(troubles, now)
    return page(
        request, "failures.html", groups=groups[:_GROUPS], more=len(groups) - _GROUPS, within=within,
        choices=list(WITHIN), capped=len(troubles) >= TROUBLES, most=TROUBLES, at_once=_AT_ONCE,
        gaps=[gap_line(gap, now) for gap in gaps[:_GAPS]], gaps_more=len(gaps) > _GAPS, left_out=gaps_words(gaps),
    )  # fmt: skip


@router.post("/failures/retry", dependencies=CHANGER)
def retry_group(context: Context, who: Who, form: FormBody) -> Response:
    """Try the newest runs of a group again that were not yet."""
    within, wanted = form.one("within"), _read_kind(form.one("job_id"), form.one("task"), form.one("error_type"))
    if within not in WITHIN:
        raise Problem(422, f"within: known are {', '.join(WITHIN)}")
    troubles = context.stores.history.troubles(context.clock() - WITHIN[within], TROUBLES)
    chosen = [trouble.run_id for trouble in troubles if _kind(trouble) == wanted]
    parts = (chosen[first : first + _AT_ONCE] for first in range(0, len(chosen), _AT_ONCE))
    made = next(filter(None, (_tried_again(context, who, part) for part in parts)), [])
    if made:
        context.leader.tell("run_enqueued", {"run_ids": made})
    return go(f"/failures?within={within}", "all-retried" if made else "none-retried")


def _tried_again(context: ApiContext, who: Caller, run_ids: Sequence[str]) -> list[str]:
    """The new runs; none for those that were tried again before."""
    new = [anew for run_id in run_ids if (anew := _again(context, run_id)) is not None]
    enqueued = context.stores.runs.enqueue(new, by=who.deed("run.retry")) if new else []
    return [run.run_id for run, is_new in enqueued if is_new]


def grouped(troubles: Iterable[Trouble], now: Instant) -> list[Group]:
    """Failures, the latest first, by their kinds."""
    kinds: dict[Kind, list[Trouble]] = {}
    for trouble in troubles:
        kinds.setdefault(_kind(trouble), []).append(trouble)
    groups = [_group(kind, found, now) for kind, found in kinds.items()]
    return sorted(groups, key=lambda group: group.count, reverse=True)


def _group(kind: Kind, latest_first: Sequence[Trouble], now: Instant) -> Group:
    last = latest_first[0]
    return Group(
        kind, SHAPES[kind.state], len(latest_first), moment(latest_first[-1].finished_at, now),
        moment(last.finished_at, now), last.run_id, last.message or last.reason or "",
    )  # fmt: skip


def _kind(trouble: Trouble) -> Kind:
    if trouble.state is RunState.MISSED:
        return Kind(trouble.job_id, trouble.task, trouble.state, "")
    return Kind(trouble.job_id, trouble.task, trouble.state, trouble.error_type or (trouble.reason or "").split(":")[0])


def _read_kind(job_id: str, task: str, error_type: str) -> Kind:
    """Missed runs are not tried again here: their time is past, and the job says what becomes of them."""
    return Kind(job_id or None, task, RunState.FAILED, error_type)


def _again(context: ApiContext, run_id: str) -> NewRun | None:
    """None where the run was pruned meanwhile."""
    try:
        run = context.stores.runs.get(run_id)
    except NotFound:
        return None
    anew = again(run, str(uuid7()), context.clock())
    return replace(anew, idempotency_key=f"again:{run.run_id}"[:255], request_hash=_HASH)
