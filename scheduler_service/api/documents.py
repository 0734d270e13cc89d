"""The OpenAPI document: what each call takes and answers, problems included."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from scheduler_service.api import answers as shapes
from scheduler_service.api import balance_shapes, schemas
from scheduler_service.api.problems import MEDIA_TYPE

_PREFIX: Final = "#/components/schemas/"
_EVERYWHERE: Final = (401, 403, 422, 429, 503)
_SAID: Final = {
    400: "The request cannot be read",
    401: "No valid token",
    403: "Not allowed",
    404: "There is no such thing",
    409: "It contradicts what is stored",
    412: "Changed since it was read",
    413: "Too large",
    408: "The body did not come in time",
    422: "Some values are not accepted",
    429: "Too many requests of this token; see Retry-After",
    503: "The database or Redis is away, or no leader answers; see Retry-After",
}
_RETRY_AFTER: Final = {"description": "Seconds until it may be tried again", "schema": {"type": "integer"}}
_REQUESTS: Final = (
    schemas.JobIn, schemas.JobPut, schemas.JobPatch, schemas.PauseIn, schemas.TriggerIn, schemas.PreviewIn,
    schemas.RunIn, schemas.BatchIn, schemas.ApplyIn, shapes.Problem, balance_shapes.RebalanceIn,
)  # fmt: skip


def answers(models: Mapping[int, type[BaseModel]], *problems: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route: its models, and problem documents for the statuses named and the usual ones."""
    found: dict[int | str, dict[str, Any]] = {status: {"model": model} for status, model in models.items()}
    slow = {408} if 413 in problems else set()
    for status in sorted({*problems, *slow, *_EVERYWHERE}):
        content = {MEDIA_TYPE: {"schema": {"$ref": f"{_PREFIX}Problem"}}}
        found[status] = {"description": _SAID[status], "content": content}
        if status in (429, 503):
            found[status]["headers"] = {"Retry-After": _RETRY_AFTER}
    return found


def body_of(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """The request body of a route that reads it itself."""
    content = {"application/json": {"schema": {"$ref": f"{_PREFIX}{model.__name__}"}}}
    return {"requestBody": {"required": required, "content": content}}


def install_document(app: FastAPI, *, with_tokens: bool) -> None:
    """Complete FastAPI's own document with the schemas of the requests, and whether a token is needed."""
    made_by_fastapi = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = made_by_fastapi()
            _, extra = models_json_schema([(m, "validation") for m in _REQUESTS], ref_template=_PREFIX + "{model}")
            document.setdefault("components", {}).setdefault("schemas", {}).update(extra["$defs"])
            if not with_tokens:
                _drop_security(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to change the document


def _drop_security(document: dict[str, Any]) -> None:
    document["components"].pop("securitySchemes", None)
    for calls in document["paths"].values():
        for call in calls.values():
            call.pop("security", None)
