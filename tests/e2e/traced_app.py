"""A user's own Celery app, whose tasks have spans of their own, enqueue what comes next, fail, or wait."""

import os
import time

from celery import Celery
from opentelemetry import trace

import itinerary
from itinerary.client.sync import Client

app = Celery("shop", broker=os.environ["ITINERARY_REDIS_URL"])
itinerary.attach(app)
tracer = trace.get_tracer("shop")


@app.task(name="shop.order")
def order(number: int) -> str:
    with tracer.start_as_current_span("look into the stock"):
        return f"order {number}"


@app.task(name="shop.refuse", max_retries=0)
def refuse() -> None:
    raise ValueError("no such article")


@app.task(name="shop.follow")
def follow(api: str) -> str:
    with Client(api) as client:
        return str(client.enqueue("shop.order", kwargs={"number": 2})["run_id"])


@app.task(name="shop.wait")
def wait() -> None:
    time.sleep(600)
