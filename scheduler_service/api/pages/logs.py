"""The log of a run: within the run's page and on a page of its own, on both followed while it runs.

The run's page is fetched anew every few seconds: it keeps the part that follows an attempt, and gets another one for
the next attempt. The script asks for more lines only while somebody looks.
"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from scheduler_service.api.context import Context
from scheduler_service.api.pages.shell import READER, PageRoute, page
from scheduler_service.api.pages.templating import part
from scheduler_service.api.services.run_logs import read_part
from scheduler_service.core.contract.log_text import shown

router = APIRouter(include_in_schema=False, dependencies=READER, route_class=PageRoute)

# A page that follows for longer would hold ever more text: it stops, and offers to go on anew.
_MOST_SHOWN: Final = 1_000_000
_LAST_POSITION: Final = 2**53 - 1

Attempt = Annotated[int | None, Query(ge=1, le=100_000)]
Position = Annotated[int, Query(ge=0, le=_LAST_POSITION)]


@router.get("/runs/{run_id}/logs")
def show_log(request: Request, context: Context, run_id: str, attempt: Attempt = None) -> Response:
    """Show the end of an attempt's log: on a page of its own, or as the part that a run's page loads."""
    inside = bool(request.headers.get("hx-request"))
    found = read_part(context, run_id, attempt, 0, follow=True)
    attempts = sorted({*context.stores.logs.attempts(run_id), found.attempt})
    values: dict[str, Any] = {
        "run_id": run_id, "found": found, "text": shown(found.tail.text), "attempts": attempts,
        "since": found.tail.start, "inside": inside,
    }  # fmt: skip
    return part("_log.html", **values) if inside else page(request, "log.html", **values)


@router.get("/parts/log/{run_id}")
def more_of_log(
    context: Context, run_id: str, attempt: Attempt = None, after: Position = 0, since: Position = 0
) -> Response:
    """Show what follows a position, and ask again."""
    found = read_part(context, run_id, attempt, after, follow=True)
    full = found.tail.end - since > _MOST_SHOWN
    return part("_log_lines.html", run_id=run_id, found=found, text=shown(found.tail.text), since=since, full=full)
