"""Pools under which a worker could not be heard are refused, before they take anything."""

import pytest
from celery import Celery
from celery.signals import worker_init, worker_ready, worker_shutdown

import workers


class Worker:
    """As much of a Celery worker as its signals show."""

    hostname = "one@here"

    def __init__(self, app: Celery, pool: str) -> None:
        self.app = app
        self.pool = type("TaskPool", (), {"__module__": f"celery.concurrency.{pool}"})()


@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_a_pool_whose_heartbeats_do_not_go_out_is_refused(pool: str) -> None:
    app = Celery("muted", broker="redis://127.0.0.1:1/0", set_as_current=False)
    workers.attach(app)
    worker = Worker(app, pool)
    worker_init.send(sender=worker)
    try:
        with pytest.raises(SystemExit, match="gevent and eventlet are not supported"):
            worker_ready.send(sender=worker)
    finally:
        worker_shutdown.send(sender=worker)
        app.close()
