"""The API's process: one process, endpoints in a pool of threads, a clean stop on SIGTERM."""

import logging
import socket
from dataclasses import replace
from functools import partial
from typing import Final

import structlog
import uvicorn
from fastapi import FastAPI

from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import SECOND
from itinerary.telemetry import tracing
from scheduler_service.api.app import build_app
from scheduler_service.api.context import ApiContext, system_clock
from scheduler_service.api.http.auth import check_exposure
from scheduler_service.api.http.connections import bounded, room
from scheduler_service.api.http.problems import is_news
from scheduler_service.api.services.bulk import tell
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.bootstrap.bulk import carrying_on_bulk
from scheduler_service.bootstrap.notifications import api_watches
from scheduler_service.bootstrap.parts import check_redis, open_stores
from scheduler_service.bootstrap.zone_rules import following_zone_rules
from scheduler_service.config.settings import Settings
from scheduler_service.runtime.collector import keep_loaded

_CONNECTIONS: Final = 10
_STOP_WITHIN: Final = 5
_BACKLOG: Final = 1024

log = structlog.get_logger(__name__)


def serve(settings: Settings) -> None:
    """Answer HTTP until a signal."""
    check_exposure(settings)
    check_redis(settings)
    with (
        listening(settings) as listener,
        open_stores(settings, connections=_CONNECTIONS) as stores,
        api_watches(settings),
        following_zone_rules(stores.zone_rules),
        carrying_on_bulk(stores.bulk, partial(tell, line := LeaderLine(stores.inbox, system_clock))),
    ):
        context = ApiContext(settings, stores, line, system_clock)
        config = server_config(traced_app(context), settings)
        if not settings.asks_who:
            log.info("api open to this machine only", why="no ITINERARY_API_TOKENS are set")
        log.info("api starting", host=settings.api_host, port=settings.api_port)
        Server(config).run(sockets=[listener])


class Server(uvicorn.Server):
    """uvicorn's server with a longer backlog: asyncio uses one number for the backlog and for accepts at once."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, once all that this process needs is loaded."""
        keep_loaded()
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)


def server_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """Return uvicorn's configuration."""
    bounds = room()
    logging.getLogger("uvicorn.error").addFilter(is_news)
    return uvicorn.Config(
        app,
        http=bounded(settings.api_receive_timeout / SECOND, bounds.most),
        backlog=bounds.at_once,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_STOP_WITHIN,
        h11_max_incomplete_event_size=64 * 1024,
    )


def traced_app(context: ApiContext) -> FastAPI:
    """Wrap the application so that each run it enqueues continues its caller's trace, if tracing is on."""
    tracer = tracing.tracer("itinerary-api")
    if tracer is None:
        return build_app(context)
    from scheduler_service.api.http.caller_context import CallerContext
    from scheduler_service.observability.traced import TracedRuns

    stores = replace(context.stores, runs=TracedRuns(context.stores.runs, tracer))
    app = build_app(replace(context, stores=stores))
    app.add_middleware(CallerContext)
    return app


def listening(settings: Settings) -> socket.socket:
    """Open the API's socket.

    It names its protocol: otherwise asyncio leaves TCP_NODELAY out, and every answer waits 40 ms for an
    acknowledgement.
    """
    host, port = settings.api_host, settings.api_port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as exc:
        listener.close()
        message = f"port {port} of {host} cannot be listened on ({exc.strerror}); choose another with --port"
        raise ItineraryError(message) from exc
    return listener
