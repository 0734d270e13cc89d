"""Pools that cannot be had are refused before they take anything."""

import sys

import pytest
from celery import Celery
from celery.signals import worker_init, worker_ready, worker_shutdown

import itinerary
from itinerary.command_line import main


class Worker:
    """As much of a Celery worker as its signals show."""

    hostname = "one@here"
    time_limit = soft_time_limit = None

    def __init__(self, app: Celery, pool: str) -> None:
        self.app = app
        self.pool = type("TaskPool", (), {"__module__": f"celery.concurrency.{pool}"})()


def test_a_pool_that_is_not_supported_is_refused() -> None:
    app = Celery("untried", broker="redis://127.0.0.1:1/0", set_as_current=False)
    itinerary.attach(app)
    worker = Worker(app, "eventlet")
    worker_init.send(sender=worker)
    try:
        with pytest.raises(SystemExit, match="the pool eventlet is not supported"):
            worker_ready.send(sender=worker)
    finally:
        worker_shutdown.send(sender=worker)
        app.close()


def test_without_gevent_its_pool_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "gevent", None)
    assert main(["-P", "gevent"]) == 2
    assert "--pool: 'gevent' is not accepted; it needs the package gevent" in capsys.readouterr().err
