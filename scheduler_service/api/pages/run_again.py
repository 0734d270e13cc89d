"""The form that runs a run's task once more with changes.

Promises that a hidden value is never shown, and that its mask is never stored. A mask left in place needs the word that
the stored value is meant. An error never loses typed values.
"""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Depends, Request, Response

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import format_duration
from itinerary.protocol.redaction import MASK, holds_mask, redacted
from scheduler_service.api.context import Context
from scheduler_service.api.http.auth import Who, require_operator_page
from scheduler_service.api.http.bodies import read_json
from scheduler_service.api.pages.csrf import Form, FormBody
from scheduler_service.api.pages.moments import pretty
from scheduler_service.api.pages.shell import CHANGER, PageRoute, go, page
from scheduler_service.api.pages.wrong import NOTHING_WRONG, Wrong, or_again
from scheduler_service.api.routes.runs import known_run, started_again
from scheduler_service.core.model import Run

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_JSON_FIELDS: Final = frozenset({"args", "kwargs", "headers"})
_LABELS: Final = {
    "task": "Task", "args": "Arguments by position", "kwargs": "Arguments by name", "headers": "Headers",
    "queue": "Queue",
    "priority": "Priority", "timeout": "Time limit", "keep": "Hidden values",
}  # fmt: skip


@router.get("/runs/{run_id}/again", dependencies=[Depends(require_operator_page)])
def filled_form(request: Request, context: Context, run_id: str) -> Response:
    """Show the form with the values of the run."""
    run = known_run(context, run_id)
    return _form(request, run, _typed(run))


@router.post("/runs/{run_id}/again", dependencies=CHANGER)
def start(request: Request, context: Context, who: Who, run_id: str, form: FormBody) -> Response:
    """Create the new run, then go to its page; if it is refused, show the form again."""
    run = known_run(context, run_id)
    return or_again(
        lambda: go(f"/runs/{started_again(context, who, run_id, _changes(run, form))[0].run_id}", "again"),
        lambda wrong: _form(request, run, form.texts(), wrong),
        _LABELS,
    )


def _typed(run: Run) -> dict[str, str]:
    """The run's values as texts, hidden ones masked."""
    return {
        "task": run.task, "args": pretty(redacted(list(run.args))), "kwargs": pretty(redacted(run.kwargs)),
        "queue": run.queue, "priority": str(run.priority),
        "timeout": "" if run.timeout is None else format_duration(run.timeout),
        **({} if run.headers is None else {"headers": pretty(redacted(run.headers))}),
    }  # fmt: skip


def _changes(run: Run, form: Form) -> dict[str, Any]:
    """The fields that differ from the run's; BadValues with every error."""
    before, errors = _typed(run), list[BadValue]()
    texts = {name: form.one(name) for name in before}
    changed: dict[str, Any] = {name: text or None for name, text in texts.items() if text != before[name]}
    for name in sorted(before.keys() & _JSON_FIELDS):
        try:
            value = read_json(texts[name], name) if texts[name] else None
        except BadValue as exc:
            errors.append(exc)
            continue
        if name in changed:
            changed[name] = value
        if holds_mask(value) and not form.one("keep"):
            advice = f"{MASK} stands for a hidden value: type the value, or say below that the stored one is meant"
            errors.append(BadValue(name, None, advice))
    if changed.get("priority") is not None:
        changed["priority"] = _whole(changed["priority"], errors)
    if errors:
        raise BadValues(errors)
    return changed


def _whole(text: str, errors: list[BadValue]) -> int | None:
    if text.isdecimal():
        return int(text[:9])
    errors.append(BadValue("priority", text, "give a whole number from 0 to 9"))
    return None


def _form(request: Request, run: Run, typed: Mapping[str, str], wrong: Wrong = NOTHING_WRONG) -> Response:
    hides = any(redacted(value) is not value for value in (list(run.args), run.kwargs, run.headers))
    return page(request, "run_again.html", wrong=wrong, run=run, typed=typed, labels=_LABELS, hides=hides, mask=MASK)
