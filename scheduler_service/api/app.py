"""The FastAPI application: puts routes, guards, error handlers and pages together.

Opens nothing and decides nothing.
"""

from functools import cache
from typing import Final

from fastapi import FastAPI
from starlette.routing import BaseRoute

from itinerary.protocol.redaction import use_keys
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.auth import check_exposure
from scheduler_service.api.http.bodies import BodyLimit
from scheduler_service.api.http.grants import grants_of
from scheduler_service.api.http.guards import SafeHeaders, SameSite
from scheduler_service.api.http.problems import install_problem_handlers
from scheduler_service.api.http.rate_limit import RateLimit, rate_of
from scheduler_service.api.http.request_ids import RequestId
from scheduler_service.api.http.under_way import UnderWay
from scheduler_service.api.openapi.documents import document_text, install_document, operation_id
from scheduler_service.api.pages import balancing, dashboard
from scheduler_service.api.pages.identity import provider_of
from scheduler_service.api.routes import (
    access,
    apply,
    audit,
    backfill,
    balance,
    bulk,
    calendars,
    explain,
    exports,
    freezes,
    health,
    job_lists,
    jobs,
    limits,
    logs,
    monitors,
    queues,
    run_calendar,
    runs,
    scheduler,
    stats,
    timeline,
    views,
    zone_rules,
)
from scheduler_service.version import VERSION

DESCRIPTION: Final = """\
Jobs, runs and the scheduler itself. Times are RFC 3339 in UTC, durations texts such as `25m`.
A 2xx response means that the change is committed. Errors are RFC 9457 problem documents."""


def build_app(context: ApiContext) -> FastAPI:
    """Build the API and the dashboard over these parts; BadValues if other machines could use it without a token."""
    check_exposure(context.settings)
    use_keys(context.settings.redact_keys)
    app = _with_routes(with_tokens=context.settings.asks_who)
    app.state.context = context
    app.state.grants = grants_of(context.settings)
    app.state.provider = provider_of(context.settings) if context.settings.oidc_issuer else None
    install_problem_handlers(app)
    dashboard.install(app)
    app.add_middleware(BodyLimit)
    rate = rate_of(context.settings)
    if rate:
        app.add_middleware(RateLimit, rate=rate, tokens=context.settings.api_tokens)
    app.add_middleware(SameSite, loopback_only=not context.settings.asks_who)
    app.add_middleware(SafeHeaders)
    app.add_middleware(RequestId)
    app.add_middleware(UnderWay, requests=context.plans.requests)
    return app


@cache
def describe() -> str:
    """Return the OpenAPI document of an API with tokens, as it is shipped; needs no running service."""
    return document_text(_with_routes(with_tokens=True).openapi())


def _with_routes(*, with_tokens: bool) -> FastAPI:
    app = _empty()
    app.router.routes.extend(_routes())
    install_document(app, with_tokens=with_tokens)
    return app


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """Include every router, once for all apps of this process: FastAPI needs 50 ms to resolve their parameters."""
    app = _empty()
    for routes in (
        apply,
        explain,
        audit,
        bulk,
        exports,
        jobs,
        job_lists,
        backfill,
        timeline,
        run_calendar,
        runs,
        queues,
        calendars,
        limits,
        monitors,
        logs,
        freezes,
        scheduler,
        stats,
        balance,
        zone_rules,
        access,
        views,
        health,
        dashboard,
        balancing,
    ):
        app.include_router(routes.router)
    return tuple(app.routes)


def _empty() -> FastAPI:
    return FastAPI(
        title="Itinerary", description=DESCRIPTION, version=VERSION, docs_url=None, redoc_url=None, openapi_url=None,
        redirect_slashes=False,  # a redirect would lead to the name in the Host header, which the caller chooses
        generate_unique_id_function=operation_id, license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )  # fmt: skip
