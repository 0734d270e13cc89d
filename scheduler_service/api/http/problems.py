"""RFC 9457 problem documents for every error of the API. Owns the mapping from the product's exceptions to HTTP.

Promises: an answer holds no stack trace, no driver text and no other user's value; every 503 says when to retry.
"""

import logging
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from itinerary.protocol.errors import (
    BadValue,
    BadValues,
    BrokerUnavailable,
    Conflict,
    ItineraryError,
    NotFound,
    RowRefused,
    StaleVersion,
    StoreBusy,
    StoreUnavailable,
    TooLarge,
)
from scheduler_service.api.http.request_ids import HEADER, request_id

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER: Final = "2"
_TYPE: Final = "urn:itinerary:problem:"
KINDS: Final = {
    "role-too-small": "The token's role does not allow this",
    "outside-limits": "The token is limited to other queues, tasks or jobs",
    "foreign-page": "A page of another site asked",
    "form-outdated": "The form is out of date",
    "conflict": "It contradicts what is stored",
    "job-exists": "A job of this id exists",
    "limit-in-use": "Jobs name the limit",
    "calendar-in-use": "Jobs or monitors name the calendar",
    "too-many-links": "Too many links share pages",
    "too-many-freezes": "Too many freezes hold or are to come",
    "run-exists": "A run of this id exists",
    "key-reused": "The idempotency key was used for another request",
    "run-not-final": "The run is not over",
    "not-undoable": "The operation cannot be undone",
    "plan-outdated": "The stored jobs changed since the plan was made",
    "other-source": "A job belongs to another source",
    "edited-by-others": "Others edit it all the time",
    "stored-by-newer": "The job was stored by a newer release",
    "rebalance-refused": "The leader refuses the rebalance",
    "nothing-to-skip": "There is no next run",
    "stale-version": "The job changed since it was read, or is there already",
    "database-away": "The database does not answer",
    "database-busy": "Others change the same rows",
    "redis-away": "Redis does not answer",
    "no-leader": "No leader answers",
    "older-leader": "The leader is of an older release",
}
"""Problem types that distinguish the causes of one status, with their titles."""
# Python changed its own texts for these with RFC 9110; ours are the same on every version.
_TITLES: Final = {413: "Content Too Large", 422: "Unprocessable Content"}

_LOGGED: Final = "_itinerary_logged"

log = structlog.get_logger(__name__)


class Problem(HTTPException):
    """An answer that is an error: status, a sentence for the reader, and the fields at fault."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
        *,
        kind: str | None = None,
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.errors = tuple(errors)
        self.kind = kind


def malformed(detail: str) -> Problem:
    """Return a 400: the request cannot be read."""
    return Problem(400, detail)


def unavailable(detail: str, kind: str) -> Problem:
    """Return a 503: a retry may succeed shortly."""
    return Problem(503, detail, headers={"Retry-After": RETRY_AFTER}, kind=kind)


def problem_response(problem: HTTPException) -> Response:
    """Build the problem document of an HTTP error."""
    kind = getattr(problem, "kind", None)
    title = KINDS[kind] if kind else _TITLES.get(problem.status_code) or HTTPStatus(problem.status_code).phrase
    body: dict[str, Any] = {
        "type": _TYPE + (kind or title.lower().replace(" ", "-")),
        "title": title,
        "status": problem.status_code,
        "detail": str(problem.detail),
    }
    own_id = request_id()
    if own_id is not None:
        body["request_id"] = own_id
    errors = getattr(problem, "errors", ())
    if errors:
        body["errors"] = list(errors)
    headers = {**(problem.headers or {}), **({} if own_id is None else {HEADER: own_id})}
    return JSONResponse(body, problem.status_code, headers, media_type=MEDIA_TYPE)


def problem_of(error: ItineraryError) -> Problem:
    """Translate an error of the product into a Problem for the caller."""
    match error:
        case BadValues() if any(isinstance(e, TooLarge) for e in error.errors):
            return Problem(413, "too large", [_error(e) for e in error.errors])
        case BadValues():
            return Problem(422, "some values are not accepted", [_error(e) for e in error.errors])
        case BadValue():
            return Problem(422, "a value is not accepted", [_error(error)])
        case NotFound():
            return Problem(404, str(error))
        case StaleVersion():
            return Problem(412, str(error), kind=error.kind)
        case Conflict():
            return Problem(409, str(error), kind=error.kind)
        case RowRefused():
            return Problem(422, "the database cannot store this")
        case StoreBusy():
            return unavailable(
                "others change the same rows just now; nothing of this was stored, try again", "database-busy"
            )
        case StoreUnavailable():
            return unavailable(
                "the database does not answer; nothing is known to be stored, try again", "database-away"
            )
        case BrokerUnavailable():
            return unavailable("Redis does not answer, try again", "redis-away")
        case _:
            return Problem(500, "this is an error of ours; the log names it under this request_id")


def messages_of(error: Mapping[str, Any]) -> str:
    """Describe an error in a parameter, its name first, from FastAPI's error: its location is `query`, the name, ..."""
    return f"{error['loc'][:2][-1]}: {error['msg']}"


def install_problem_handlers(app: FastAPI) -> None:
    """Answer every error of this application with a problem document."""
    app.add_exception_handler(ItineraryError, _on_itinerary_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_bug)


def _error(error: BadValue) -> dict[str, Any]:
    return {"loc": error.field.split(".") if error.field else [], "msg": str(error)}


def _on_itinerary_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, ItineraryError)
    problem = problem_of(exc)
    if problem.status_code >= 500:
        log.warning("request failed", path=request.url.path, status=problem.status_code, error=str(exc))
    return problem_response(problem)


def _on_validation_error(_request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    errors = [{"loc": [str(part) for part in error["loc"]], "msg": messages_of(error)} for error in exc.errors()]
    return problem_response(Problem(422, "some values are not accepted", errors))


def _on_http_error(_request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    return problem_response(exc)


def _on_bug(request: Request, exc: Exception) -> Response:
    # As text: where nobody configured the logs, structlog would show the values of all variables, secrets too.
    trace = "".join(traceback.format_exception(exc))
    log.error("request crashed", path=request.url.path, method=request.method, exception=trace)
    with suppress(AttributeError):  # a frozen one
        setattr(exc, _LOGGED, True)
    return problem_response(problem_of(ItineraryError()))


def is_news(record: logging.LogRecord) -> bool:
    """Whether a record of the HTTP server's tells more than `request crashed` did: that raises its error again."""
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    return not getattr(error, _LOGGED, False)
