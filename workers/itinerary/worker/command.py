"""`python -m itinerary worker`: one Celery worker in this process, with the options that Itinerary needs.

With `--app module:celery_app` it runs that app, and attaches it if it is not yet. Exit status 2 for a wrong call, else
Celery's own. Results of tasks never reach the log.
"""

import argparse
import os
import secrets
import sys
from importlib.util import find_spec
from typing import Any, Final

from celery import Celery
from celery.utils.nodenames import default_nodename, host_format

from itinerary.protocol.errors import BadValue
from itinerary.worker.green import AT_WORK

DEFAULT_QUEUE: Final = "default"
_OWN_APP: Final = "itinerary.worker.celery_app:app"
_SUCCEEDED: Final = "Task %(name)s[%(id)s] succeeded in %(runtime)ss"


def run_worker(argv: list[str]) -> int:
    """Run the worker until it is stopped; return its exit status."""
    asked = _parser().parse_args(argv)
    if asked.check:
        _load(asked.app)
        return 0
    if asked.pool == "gevent":
        _be_patched(argv)
    app = _load(asked.app)
    _keep_results_out_of_logs()
    worker: Any = app.Worker(
        hostname=host_format(default_nodename(asked.hostname)),
        pool_cls=asked.pool,
        concurrency=asked.concurrency,
        loglevel=asked.loglevel.upper(),
        queues=asked.queues or _queues_of(app),
        task_events=True,
        without_gossip=True,
        without_mingle=True,
        quiet=True,
        no_color=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m itinerary worker", description="Run one Celery worker under Itinerary."
    )
    parser.add_argument("--app", default=_OWN_APP, help="module:celery_app of your own app")
    parser.add_argument("-c", "--concurrency", type=int, help="tasks at a time; the number of CPUs by default")
    parser.add_argument("-Q", "--queues", help="queues to consume, separated by commas")
    parser.add_argument("-P", "--pool", default="prefork", choices=["prefork", "threads", "solo", "gevent"])
    parser.add_argument("-n", "--hostname", default=f"worker-{secrets.token_hex(4)}@%h", help="unique name of the node")
    parser.add_argument("-l", "--loglevel", default="info", choices=["debug", "info", "warning", "error"])
    parser.add_argument("--check", action="store_true", help="only load the app; status 2 if it cannot be")
    return parser


def _load(place: str) -> Celery:
    """Load the app and attach it. Modules in the working directory are found too, as by Celery's own command."""
    from itinerary.apps.loading import find
    from itinerary.worker.attach import attach
    from itinerary.worker.embedded import app_for

    try:
        found: Any = find(place)
    except BadValue as exc:
        raise BadValue("--app", exc.value, exc.allowed) from exc
    try:
        # A Schedule of plain functions and Celery tasks stands for the app that runs them.
        app: Celery = found if isinstance(found, Celery) else app_for(found.functions, found.celery_apps)
    except AttributeError as exc:
        raise BadValue("--app", place, f"it names a {type(found).__name__}, not a Celery app") from exc
    attach(app)
    app.set_current()
    return app


def _be_patched(argv: list[str]) -> None:
    """Restart as a program that gevent starts: it must replace the blocking calls before anything is imported."""
    if find_spec("gevent") is None:
        raise BadValue("--pool", "gevent", "it needs the package gevent beside Celery; run pip install gevent")
    if not AT_WORK:
        safe = ["-P"] if getattr(sys.flags, "safe_path", False) else []  # Python 3.10 has no such flag
        os.execv(sys.executable, [sys.executable, *safe, "-m", "gevent.monkey", "--module", "itinerary", *argv])


def _queues_of(app: Celery) -> str:
    """The app's own queues, and the default queue of jobs."""
    names = list(app.amqp.queues)
    return ",".join(names if DEFAULT_QUEUE in names else [*names, DEFAULT_QUEUE])


def _keep_results_out_of_logs() -> None:
    from celery.app import trace

    trace.LOG_SUCCESS = _SUCCEEDED
