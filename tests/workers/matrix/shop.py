"""A user's app, copied with witness.py into a folder of its own: of ours it knows the installed wheel alone.

Each task writes a line into the file TRUTH when its body starts.
"""

import json
import os
import signal
import time
from typing import Any

from celery import Celery, Task, chain, chord, group
from celery.exceptions import SoftTimeLimitExceeded
from witness import wait_for, witness

import itinerary

try:
    from celery_batches import Batches
except ImportError:  # none allows the newest Celery
    Batches = None

REDIS = os.environ["SHOP_REDIS"]
app = Celery("shop", broker=f"{REDIS}/0", backend=f"{REDIS}/1")
app.conf.task_default_queue = os.environ["SHOP_QUEUE"]


class Named(Task):
    """As Celery's manual shows it."""

    def shadow_name(self, args: Any, kwargs: Any, options: Any) -> str:
        return f"mirror of {args[0]}"


@app.task(name="shop.mirror", bind=True, base=Named, soft_time_limit=30, time_limit=40)
def mirror(self: Any, what: str, more: int = 0) -> "dict[str, Any]":
    plain = (str, int, float, list, tuple, dict, type(None))
    return {name: value for name, value in vars(self.request).items() if isinstance(value, plain)}


@app.task(name="shop.add")
def add(x: int, y: int) -> int:
    return x + y


@app.task(name="shop.total")
def total(numbers: "list[int]", name: str) -> int:
    witness("total", name, sorted(numbers))
    return sum(numbers)


@app.task(name="shop.told")
def told(number: int, name: str) -> None:
    witness("told", name, number)


@app.task(name="shop.where")
def where() -> "list[Any]":
    run = itinerary.current_run()
    return [itinerary.__file__, run.run_id, run.attempt]


@app.task(name="shop.retries", bind=True)
def retries(self: Any, left: int) -> "list[int]":
    witness("retries", self.request.id, left)
    if left:
        raise self.retry(args=[left - 1], countdown=0.2)
    return [self.request.retries, itinerary.current_run().attempt]


@app.task(name="shop.flaky", bind=True, autoretry_for=(ConnectionError,), max_retries=2, default_retry_delay=0.2)
def flaky(self: Any, until: int) -> int:
    witness("flaky", self.request.id)
    if self.request.retries < until:
        raise ConnectionError("the other side is down")
    return self.request.retries


@app.task(name="shop.fails")
def fails() -> None:
    raise ValueError("no good")


@app.task(name="shop.chains")
def chains(name: str) -> None:
    chain(add.s(1, 2), add.s(4), told.s(name)).apply_async()


@app.task(name="shop.groups")
def groups(name: str) -> None:
    group(told.s(number, name) for number in range(3)).apply_async()


@app.task(name="shop.chords")
def chords(name: str) -> None:
    chord((add.s(number, number) for number in range(3)), total.s(name)).apply_async()


@app.task(name="shop.gated", bind=True)
def gated(self: Any, gate: str) -> str:
    witness("gated", self.request.id)
    wait_for(gate)
    return "through"


@app.task(name="shop.stubborn", bind=True)
def stubborn(self: Any, gate: str) -> None:
    witness("stubborn", self.request.id)
    while True:
        try:
            return wait_for(gate)
        except SoftTimeLimitExceeded:
            witness("told to stop", self.request.id)


@app.task(name="shop.cooperative", bind=True)
def cooperative(self: Any) -> None:
    witness("cooperative", self.request.id)
    while not itinerary.current_run().cancelled():
        time.sleep(0.02)
    raise itinerary.RunCancelled


@app.task(name="shop.rationed", bind=True, rate_limit="2/s")
def rationed(self: Any, name: str) -> None:
    witness("rationed", name, time.time())


@app.task(name="shop.punctual")
def punctual(name: str) -> None:
    witness("punctual", name, time.time())


@app.task(name="shop.acks_late", bind=True, acks_late=True)
def acks_late(self: Any) -> str:
    witness("acks_late", self.request.id)
    return "done"


@app.task(name="shop.dies", bind=True)
def dies(self: Any) -> None:
    witness("dies", self.request.id)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="shop.dies_late", bind=True, acks_late=True, reject_on_worker_lost=True)
def dies_late(self: Any) -> None:
    witness("dies_late", self.request.id)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="shop.limited", soft_time_limit=1, time_limit=30)
def limited(gate: str) -> str:
    try:
        wait_for(gate)
    except SoftTimeLimitExceeded:
        return "cleaned up"
    return "never told"


@app.task(name="shop.cut", bind=True, time_limit=1)
def cut(self: Any, gate: str) -> None:
    witness("cut", self.request.id)
    wait_for(gate)


if Batches is not None:

    @app.task(name="shop.batch", base=Batches, flush_every=2, flush_interval=1)
    def batch(requests: Any) -> None:
        witness("batch", sorted(request.args[0] for request in requests))


itinerary.attach(app, exclude=["shop.batch"] if Batches is not None and not os.environ.get("CAREFREE") else [])

if __name__ == "__main__":
    print(json.dumps(mirror.apply_async(("it",), {"more": 1}).get(timeout=60)))
