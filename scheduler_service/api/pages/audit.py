"""The audit log's page, newest first: filtered by deep links, paged by key. For operators only, as over HTTP."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response

from itinerary.protocol.instants import Instant
from itinerary.protocol.redaction import redacted
from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import require_operator_page
from scheduler_service.api.pages.moments import Moment, moment, pretty, read_time
from scheduler_service.api.pages.policy_text import Change, changes
from scheduler_service.api.pages.shell import PageRoute, page
from scheduler_service.api.pages.typed_times import check_order
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Reader
from scheduler_service.api.routes.jobs import Cursor
from scheduler_service.core.audit import AuditEntry
from scheduler_service.core.contract.fields import read_text
from scheduler_service.ports.records import AuditFilter

_ENTRIES: Final = 50
_OF_A_BATCH: Final = 50
_LABELS: Final = {
    "subject": "Job or run", "actor": "Who", "action": "Action", "since": "From ({zone})", "until": "To ({zone})",
    "cursor": "Page of the list",
}  # fmt: skip

router = APIRouter(include_in_schema=False, dependencies=[Depends(require_operator_page)], route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Line:
    """One change; `link` leads to the changed object.

    `runs` are the first runs of a batch of `batch` runs; `kept` is what was created or deleted, as JSON.
    """

    at: Moment
    actor: str
    role: str
    action: str
    subject: str | None
    link: str | None
    changes: list[Change]
    batch: int
    runs: list[str]
    kept: tuple[str, str] | None


@router.get("/audit")
def show_audit(
    request: Request,
    context: Context,
    subject: Annotated[str, Query(max_length=300)] = "",
    actor: Annotated[str, Query(max_length=300)] = "",
    action: Annotated[str, Query(max_length=300)] = "",
    since: Annotated[str, Query(max_length=40)] = "",
    until: Annotated[str, Query(max_length=40)] = "",
    cursor: Cursor = None,
) -> Response:
    """Show changes, newest first."""
    reader = Reader(_LABELS)
    texts = (("subject", subject), ("actor", actor), ("action", action))
    by = {name: reader.tried(partial(read_text, text, name)) or None for name, text in texts}
    start = reader.tried(lambda: read_time(since, "since")) if since else None
    end = reader.tried(lambda: read_time(until, "until")) if until else None
    reader.tried(partial(check_order, start, end, until))
    found = reader.tried(lambda: context.stores.audit.list(AuditFilter(**by, since=start, until=end), _ENTRIES, cursor))
    entries = found.items if found is not None and reader.wrong() is NOTHING_WRONG else []
    more = found.next_cursor if found is not None and entries else None
    asked = {name: value for name, value in (*texts, ("since", since), ("until", until)) if value}
    now = context.clock()
    return page(
        request, "audit.html", wrong=reader.wrong(), lines=[_line(entry, now) for entry in entries], subject=subject,
        actor=actor, action=action, since=since, until=until, filtered=bool(asked),
        first=urlencode(asked) if cursor else None,
        following=urlencode({**asked, "cursor": more}) if more else None,
    )  # fmt: skip


def _line(entry: AuditEntry, now: Instant) -> Line:
    return Line(
        moment(entry.at, now), entry.actor, entry.role, entry.action, entry.subject, _link(entry),
        _changes(entry.before, entry.after), *_batch(entry.after), _kept(entry.before, entry.after),
    )  # fmt: skip


def _batch(after: Any) -> tuple[int, list[str]]:
    runs = after.get("run_ids") if isinstance(after, dict) else None
    return (len(runs), [str(run_id) for run_id in runs[:_OF_A_BATCH]]) if isinstance(runs, list) else (0, [])


def _kept(before: Any, after: Any) -> tuple[str, str] | None:
    """Return what a creation made or a deletion took away, with its name; None for other changes and for batches."""
    if isinstance(before, dict) == isinstance(after, dict) or _batch(after)[0]:
        return None
    return (
        ("what was created", pretty(redacted(after))) if before is None else ("what it was", pretty(redacted(before)))
    )


def _link(entry: AuditEntry) -> str | None:
    """Link to the run, job, queue, limit or freeze that changed; a job's new run is recorded under the job's id."""
    if entry.subject is None:
        return None
    if entry.action.startswith("queue."):
        return "/queues"
    if entry.action.startswith("limit."):
        return "/limits"
    if entry.action.startswith("freeze."):
        return "/freezes"
    created = entry.after.get("run_id") if isinstance(entry.after, dict) else None
    is_run = entry.action.startswith("run.") and created in (None, entry.subject)
    return f"/runs/{entry.subject}" if is_run else f"/jobs/{entry.subject}"


def _changes(before: Any, after: Any) -> list[Change]:
    """Return the fields that differ; none for a creation or deletion, whose action says enough."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    return [change for change in changes(before, after) if change.field != "version"]
