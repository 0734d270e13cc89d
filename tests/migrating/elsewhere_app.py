"""Somebody's Celery app whose beat keeps its schedule in Redis."""

from celery import Celery

app = Celery("shop", broker="redis://127.0.0.1:1/0", set_as_current=False)
app.conf.beat_scheduler = "redbeat.RedBeatScheduler"
