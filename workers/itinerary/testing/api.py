"""The API of the service in memory: the requests of clients about runs and jobs, answered as over HTTP.

Promises the API's own statuses, JSON and messages for what it answers; everything else is refused by its name.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from itinerary.client.http_pool import Answer
from itinerary.protocol.errors import BadValue, BadValues, Conflict, ItineraryError, NotFound
from itinerary.protocol.field_types import read_object
from itinerary.protocol.redaction import unmasked
from itinerary.protocol.run_request import KEY_FIELD, MOST_ERRORS, read_each, read_run_request

if TYPE_CHECKING:
    from itinerary.testing.store import Store

_REASONS: Final = {200: "OK", 201: "Created", 202: "Accepted", 204: "No Content"}
_PREFIX: Final = "/api/v1/"
Reply = tuple[int, Any]


class _Request:
    """One request, read."""

    def __init__(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> None:
        parts = urlsplit(target)
        path = parts.path.partition(_PREFIX)[2].split("/")
        self.words = [unquote(word) for word in path]
        self.method = method
        self.query = parse_qs(parts.query)
        self.json: Any = json.loads(body) if body else {}
        self.key = headers.get("Idempotency-Key")


def answer(store: "Store", method: str, target: str, body: bytes | None, headers: Mapping[str, str], *_: Any) -> Answer:
    """Answer one request, in place of a connection."""
    request = _Request(method, target, body, headers)
    try:
        status, content = _handler(request)(store, request)
    except BadValues as exc:
        status, content = 422, _problem(422, "some values are not accepted", exc.errors)
    except BadValue as exc:
        status, content = 422, _problem(422, "a value is not accepted", [exc])
    except NotFound as exc:
        status, content = 404, _problem(404, str(exc))
    except Conflict as exc:
        status, content = 409, _problem(409, str(exc))
    except ItineraryError as exc:
        status, content = 501, _problem(501, str(exc))
    sent = b"" if content is None else json.dumps(content).encode()
    return Answer(status, _REASONS.get(status, "Error"), {"content-type": "application/json"}, sent)


def _problem(status: int, detail: str, errors: Any = ()) -> dict[str, Any]:
    listed = [{"loc": error.field.split("."), "msg": str(error)} for error in errors]
    return {"type": "about:blank", "title": detail, "status": status, "detail": detail, "errors": listed}


def _handler(request: _Request) -> "Callable[[Store, _Request], Reply]":
    match (request.method, *request.words):
        case ("POST", "runs"):
            return _enqueue
        case ("POST", "runs", "batch"):
            return _enqueue_batch
        case ("GET", "runs"):
            return _runs
        case ("GET", "runs", _):
            return lambda store, asked: (200, store.run(asked.words[1]).body())
        case ("POST", "runs", _, "cancel"):
            return lambda store, asked: (202, store.cancel(asked.words[1]).body())
        case ("POST", "runs", _, "retry"):
            return lambda store, asked: (201, store.retry(asked.words[1]).body())
        case ("POST", "jobs") | ("PUT", "jobs", _):
            return _put_job
        case ("GET", "jobs"):
            return _jobs
        case ("GET", "jobs", _):
            return lambda store, asked: (200, store.job(asked.words[1]).body)
        case ("DELETE", "jobs", _):
            return _delete_job
        case ("POST", "jobs", _, "pause" | "resume"):
            return _pause
        case ("POST", "jobs", _, "trigger"):
            return _trigger
    asked_for = f"{request.method} /{'/'.join(request.words)}"
    raise ItineraryError(f"itinerary.testing does not answer {asked_for}; test that with a real service: itinerary up")


def _enqueue(store: "Store", asked: _Request) -> Reply:
    body = dict(asked.json)
    if asked.key is not None:
        body.setdefault(KEY_FIELD, asked.key)
    run, is_new = store.enqueue(read_run_request(unmasked(body)))
    return (201 if is_new else 200), run.body()


def _enqueue_batch(store: "Store", asked: _Request) -> Reply:
    wanted = asked.json.get("runs")
    if asked.key is not None and isinstance(wanted, list):
        keyed = enumerate(wanted)
        wanted = [{KEY_FIELD: f"{asked.key}#{place}", **run} if isinstance(run, dict) else run for place, run in keyed]
    read, errors = read_each(wanted, lambda run: read_run_request(unmasked(read_object(run, ""))))
    if errors:
        raise BadValues(errors[:MOST_ERRORS])
    return 201, {"runs": [store.enqueue(each)[0].body() for each in read]}


def _runs(store: "Store", asked: _Request) -> Reply:
    known = {"job_id", "state", "queue", "limit"}
    for name in sorted(set(asked.query) - known):
        raise ItineraryError(f"itinerary.testing filters runs by {', '.join(sorted(known))} only, not by {name}")
    bodies = [run.body() for run in store.runs.values()]
    found = sorted(bodies, key=lambda run: str(run["scheduled_at"]), reverse=True)
    for name in ("job_id", "state", "queue"):
        if name in asked.query:
            found = [run for run in found if run[name] in asked.query[name]]
    return 200, {"items": found[: int(asked.query.get("limit", ["1000"])[0])], "next_cursor": None}


def _jobs(store: "Store", _asked: _Request) -> Reply:
    return 200, {"items": [job.body for _, job in sorted(store.jobs.items())], "next_cursor": None}


def _put_job(store: "Store", asked: _Request) -> Reply:
    body = dict(asked.json)
    if asked.method == "PUT":
        body.setdefault("job_id", asked.words[1])
    is_there = body.get("job_id") in store.jobs
    if asked.method == "POST" and is_there:
        job_id = body["job_id"]
        raise Conflict(f"job {job_id} exists; change it with `itinerary jobs edit {job_id}`, or PUT with If-Match")
    return (200 if is_there else 201), store.put_job(body).body


def _delete_job(store: "Store", asked: _Request) -> Reply:
    store.delete_job(asked.words[1])
    return 204, None


def _pause(store: "Store", asked: _Request) -> Reply:
    job = store.job(asked.words[1])
    pausing = asked.words[2] == "pause"
    how = {"pause_reason": asked.json.get("reason"), "pause_waiting": "keep" if pausing else None}
    job.body |= {"paused": pausing, **how, "version": job.body["version"] + 1}
    return 200, job.body


def _trigger(store: "Store", asked: _Request) -> Reply:
    return 202, store.trigger(asked.words[1], asked.json).body()
