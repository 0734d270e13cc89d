"""The OpenAPI document: what each call takes and answers, problems, headers and examples included.

openapi.json beside this module is the same document, for generated programs; a test keeps both equal. After a change:
`itinerary api --openapi > scheduler_service/api/openapi.json`.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from itinerary.protocol.identity import JOB_ID, QUEUE, RUN_ID
from itinerary.protocol.limits import LIMIT
from scheduler_service.api.http.problems import MEDIA_TYPE
from scheduler_service.api.openapi import (
    access_shapes,
    balance_shapes,
    bulk_shapes,
    calendar_shapes,
    freeze_shapes,
    limit_shapes,
    monitor_shapes,
    queue_shapes,
    schemas,
    zone_shapes,
)
from scheduler_service.api.openapi import answers as shapes
from scheduler_service.api.openapi.examples import EXAMPLES, HEADERS, PARAMETERS
from scheduler_service.core.bulk import OPERATION_ID
from scheduler_service.core.contract.calendar_json import CALENDAR_ID
from scheduler_service.core.contract.freeze_json import FREEZE_ID
from scheduler_service.core.saved_views import VIEW_NAME

_PREFIX: Final = "#/components/schemas/"
_EVERYWHERE: Final = (401, 403, 422, 429, 503)
_DOCUMENTED: Final = {
    400: "The request cannot be read",
    401: "No valid token",
    403: "Not allowed",
    404: "Not found",
    408: "The body did not arrive in time",
    409: "It contradicts what is stored",
    412: "Changed since it was read",
    413: "Too large",
    422: "Some values are not accepted",
    429: "Too many requests of this token; see Retry-After",
    503: "The database or Redis is unreachable, or no leader answers; see Retry-After",
}
_IDS: Final = {
    "job_id": f"^{JOB_ID.pattern}$", "run_id": f"^{RUN_ID.pattern}$", "queue": f"^{QUEUE.pattern}$",
    "name": f"^{LIMIT.pattern}$", "calendar_id": f"^{CALENDAR_ID.pattern}$", "monitor_id": f"^{LIMIT.pattern}$",
    "freeze_id": f"^{FREEZE_ID.pattern}$", "session_id": f"^{FREEZE_ID.pattern}$", "link_id": f"^{FREEZE_ID.pattern}$",
    "operation_id": f"^{OPERATION_ID.pattern}$", "view": f"^{VIEW_NAME.pattern}$",
}  # fmt: skip
_RETRY_AFTER: Final = {"description": "Seconds until a retry may succeed", "schema": {"type": "integer"}}
_REQUESTS: Final = (
    schemas.JobIn, schemas.JobPut, schemas.JobPatch, schemas.PauseIn, schemas.TriggerIn, schemas.RetryIn,
    schemas.AgainIn, schemas.BackfillIn, schemas.PreviewIn, schemas.RunIn, schemas.BatchIn, schemas.ApplyIn,
    shapes.Problem, balance_shapes.RebalanceIn, queue_shapes.QueueIn, queue_shapes.QueuePauseIn,
    limit_shapes.LimitIn, limit_shapes.LimitPatch, freeze_shapes.FreezeIn, calendar_shapes.CalendarIn,
    monitor_shapes.MonitorIn, zone_shapes.ZoneDiffIn, bulk_shapes.BulkRunsIn, bulk_shapes.BulkJobsIn,
    access_shapes.ShareLinkIn, access_shapes.ViewIn,
)  # fmt: skip


def answers(models: Mapping[int, type[BaseModel]], *problems: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route: its models, and problem documents for named and usual statuses."""
    found: dict[int | str, dict[str, Any]] = {status: {"model": model} for status, model in models.items()}
    slow = {408} if 413 in problems else set()
    for status in sorted({*problems, *slow, *_EVERYWHERE}):
        content = {MEDIA_TYPE: {"schema": {"$ref": f"{_PREFIX}Problem"}}}
        found[status] = {"description": _DOCUMENTED[status], "content": content}
        if status in (429, 503):
            found[status]["headers"] = {"Retry-After": _RETRY_AFTER}
    return found


def body_of(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """Describe the request body of a route that reads it itself."""
    content = {"application/json": {"schema": {"$ref": f"{_PREFIX}{model.__name__}"}}}
    return {"requestBody": {"required": required, "content": content}}


def operation_id(route: APIRoute) -> str:
    """Return the name that generated clients use: `jobs_create_job`."""
    return f"{route.tags[0]}_{route.name}" if route.tags else route.name


def install_document(app: FastAPI, *, with_tokens: bool) -> None:
    """Complete FastAPI's document with request schemas, examples, and whether a token is needed."""
    generated_by_fastapi = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generated_by_fastapi()
            _, extra = models_json_schema([(m, "validation") for m in _REQUESTS], ref_template=_PREFIX + "{model}")
            document.setdefault("components", {}).setdefault("schemas", {}).update(extra["$defs"])
            _illustrate(document)
            if not with_tokens:
                _drop_security(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to change the document


def document_text(document: Mapping[str, Any]) -> str:
    """Return the document as the file that is shipped."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _illustrate(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    for field in (field for schema in schemas.values() for field in schema.get("properties", {}).values()):
        if field.get("default", field) is None:
            del field["default"]  # generators take a field with a default as one that is always there
    for calls in document["paths"].values():
        for call in calls.values():
            for parameter in call.get("parameters", ()):
                name = parameter["name"]
                parameter["example"] = PARAMETERS[name] if name in PARAMETERS else parameter["schema"]["enum"][0]
                _drop_null(parameter["schema"])
                if parameter["in"] == "path":
                    parameter["schema"]["pattern"] = _IDS[parameter["name"]]
            for status, answer in call["responses"].items():
                _tell_headers(status, answer)


def _drop_null(schema: dict[str, Any]) -> None:
    """Drop `null`: a parameter is absent or a text, and in an address or a header `null` would be that text."""
    choices = [choice for choice in schema.pop("anyOf", ()) if choice != {"type": "null"}]
    schema.update(*choices)


def _tell_headers(status: str, answer: dict[str, Any]) -> None:
    content = answer.get("content", {}).get("application/json", {})
    of_job = content.get("schema", {}).get("$ref") == f"{_PREFIX}JobOut"
    wanted = ["X-Request-Id", *(["ETag"] if of_job else []), *(["Location"] if status == "201" else [])]
    answer["headers"] = {**answer.get("headers", {}), **{name: HEADERS[name] for name in wanted}}


def _drop_security(document: dict[str, Any]) -> None:
    document["components"].pop("securitySchemes", None)
    for calls in document["paths"].values():
        for call in calls.values():
            call.pop("security", None)
