"""Itinerary's own worker app: the built-in tasks, and the settings under which nothing runs twice.

Reads ITINERARY_BROKER_URL and ITINERARY_REDIS_URL, each of which is the default of the other, and
ITINERARY_BROKER_KEY_PREFIX; attach() reads ITINERARY_KEY_PREFIX. Needs no database.
"""

import os
from functools import cache, partial
from typing import Any, Final

from celery import VERSION, Celery, signals

from itinerary.protocol.errors import BadValue
from itinerary.protocol.sentinel_urls import is_sentinel, read_sentinel_url
from itinerary.sentinel_client import transport_options
from itinerary.worker.attach import attach
from itinerary.worker.connection import REDIS_VARIABLE, is_redis
from itinerary.worker.tasks import register

BROKER_VARIABLE: Final = "ITINERARY_BROKER_URL"
PREFIX_VARIABLE: Final = "ITINERARY_BROKER_KEY_PREFIX"

# From this release on, a worker on Redis counts what it has received, not what it has not acknowledged.
_COUNTS_RECEIVED: Final = (5, 6)

# A message is acknowledged before it starts, so that the broker never redelivers it: the claim and the leader's
# redispatch do what acknowledgements cannot do on Redis. A connection without an answer for 10 s counts as dead.
_SETTINGS: Final[dict[str, Any]] = {
    "task_acks_late": False,
    "task_reject_on_worker_lost": False,
    "worker_prefetch_multiplier": 1,
    "worker_disable_prefetch": True,
    "result_backend": None,
    "task_ignore_result": True,
    "task_store_errors_even_if_ignored": False,
    "task_track_started": False,
    "task_serializer": "json",
    "result_serializer": "json",
    "accept_content": ["json"],
    "result_accept_content": ["json"],
    "task_default_queue": "default",
    "broker_connection_retry": True,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "broker_pool_acquire_timeout": 5,
    "broker_transport_options": {
        "socket_timeout": 10,
        "socket_connect_timeout": 3,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "retry_on_timeout": False,
        "visibility_timeout": 24 * 3600,
    },
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "worker_enable_remote_control": True,
    "worker_send_task_events": True,
    "worker_redirect_stdouts": False,
    "worker_log_format": "%(asctime)s level=%(levelname)s process=%(processName)s %(message)s",
    "worker_task_log_format": "%(asctime)s level=%(levelname)s task=%(task_name)s task_id=%(task_id)s %(message)s",
    "enable_utc": True,
    "timezone": "UTC",
}


def create_app(broker_url: str, redis_url: str | None = None, key_prefix: str | None = None) -> Celery:
    """The app on this broker; claims and reports go to `redis_url`, by default the broker."""
    master = read_sentinel_url(broker_url, BROKER_VARIABLE) if is_sentinel(broker_url) else None
    app = Celery("itinerary", broker=master.broker_url if master else broker_url)
    app.conf.update(_SETTINGS)
    more: dict[str, Any] = transport_options(master) if master else {}
    if os.environ.get(PREFIX_VARIABLE):
        more["global_keyprefix"] = os.environ[PREFIX_VARIABLE]
    app.conf.broker_transport_options = {**app.conf.broker_transport_options, **more}
    signals.celeryd_after_setup.connect(partial(_consume_without_acknowledging, app), weak=False)
    register(app)
    attach(app, redis_url, key_prefix=key_prefix)
    return app


def _consume_without_acknowledging(app: Celery, instance: Any, **_: Any) -> None:
    """Keep no copy of a message until it starts, a round trip before that: nobody would deliver it again for a day."""
    conf = app.conf
    if instance.app is not app or conf.task_acks_late or not conf.worker_disable_prefetch:
        return
    if VERSION >= _COUNTS_RECEIVED and is_redis(conf.broker_read_url):
        for queue in app.amqp.queues.consume_from.values():
            queue.no_ack = True


@cache
def app_of_environment() -> Celery:
    """The app that this process's environment describes; BadValue if it names no broker."""
    redis_url = os.environ.get(REDIS_VARIABLE)
    broker_url = os.environ.get(BROKER_VARIABLE) or redis_url
    if not broker_url:
        raise BadValue(REDIS_VARIABLE, redis_url, f"set it, and {BROKER_VARIABLE} where the broker is another")
    return create_app(broker_url, redis_url)


def __getattr__(name: str) -> Celery:
    """Create `itinerary.worker.celery_app:app` at its first use, so that importing this module needs no setting."""
    if name == "app":
        return app_of_environment()
    raise AttributeError(name)
