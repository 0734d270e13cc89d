"""A small Celery app as its user would have written it: nothing here knows Itinerary but the last line.

Each task writes a line into the file TRUTH when its body starts.
"""

import json
import logging
import os
import signal
import time
from typing import Any
from urllib.parse import urlencode

from celery import Celery, Task, shared_task, signals
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded
from celery.utils.log import get_task_logger
from greenlet import GreenletExit
from kombu.utils import functional

import itinerary
from tests.workers.witness import wait_for, witness

app = Celery("userapp", broker=os.environ["USERAPP_BROKER"])
app.conf.update(task_default_queue="userqueue", broker_connection_max_retries=None)
if os.environ.get("RESULT_BACKEND"):
    app.conf.update(result_backend=os.environ["RESULT_BACKEND"], result_extended=True, task_track_started=True)
if os.environ.get("USERAPP_REDIRECTS") == "0":
    app.conf.update(worker_redirect_stdouts=False)
if os.environ.get("SPAWNS"):
    app.conf.update(worker_pool_start_method="spawn")
if os.environ.get("CAREFUL"):  # as the product's own worker: Celery 5.7 ends when Redis goes while it holds messages
    app.conf.update(worker_disable_prefetch=True, worker_prefetch_multiplier=1)


own = logging.getLogger("userapp.own")
own.addHandler(logging.StreamHandler())
own.propagate = False


class Careful(Task):
    """A base class with hooks of its own."""

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        witness("before_start", task_id)

    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:
        witness("on_success", task_id)


class Named(Task):
    """A base class that names each message, as Celery's manual shows it."""

    def shadow_name(self, args: Any, kwargs: Any, options: Any) -> str:
        return f"report for {args[0].upper()} on {options['queue']}"


class Counter(app.Task):
    """A task in the old manner: a class, registered by hand."""

    name = "user.count"

    def run(self, upto: int) -> int:
        witness("count", self.request.id)
        return sum(range(upto))


@app.task(name="user.same")
def same(*args: Any, **kwargs: Any) -> list[Any]:
    return [repr(args), repr(sorted(kwargs.items()))]


@app.task(name="user.add")
def add(x: int, y: int) -> int:
    witness("add", x, y)
    return x + y


@app.task(name="user.report", bind=True, base=Named, ignore_result=True)
def report(self: Any, who: str) -> list[Any]:
    return [self.request.shadow, self.request.reply_to]


@shared_task(name="user.shared")
def shared(word: str) -> str:
    witness("shared", word)
    return word.upper()


@app.task(name="user.who", bind=True, base=Careful)
def who(self: Any) -> dict[str, Any]:
    witness("who", self.request.id)
    run = itinerary.current_run()
    if run is None:
        return {"run": None}
    return {
        "run": run.run_id,
        "job": run.job_id,
        "attempt": run.attempt,
        "scheduled_at": run.scheduled_at.isoformat(),
        "due_at": run.due_at.isoformat(),
        "cancelled": run.cancelled(),
        "retries": self.request.retries,
        "id": self.request.id,
    }


@app.task(name="user.gated", bind=True)
def gated(self: Any, gate: str) -> str:
    witness("gated", self.request.id)
    wait_for(gate)
    return "through"


@app.task(name="user.rationed", bind=True, rate_limit="12/m")
def rationed(self: Any) -> None:
    witness("rationed", self.request.id)


@app.task(name="user.rarely", bind=True, rate_limit="1/h")
def rarely(self: Any) -> None:
    witness("rarely", self.request.id)


@app.task(name="user.itself")
def itself(gate: str) -> bool:
    """Whether it is the same run before and after others had their turn."""
    before = itinerary.current_run()
    witness("itself", before.run_id)
    wait_for(gate)
    return itinerary.current_run() is before


@app.task(name="user.cooperative", bind=True)
def cooperative(self: Any) -> None:
    witness("cooperative", self.request.id)
    run = itinerary.current_run()
    while not run.cancelled():
        time.sleep(0.02)
    raise itinerary.RunCancelled


@app.task(name="user.kombus_sleep")
def kombus_sleep() -> str:
    return str(functional.sleep.__module__)


@app.task(name="user.flaky", bind=True, autoretry_for=(ConnectionError,), max_retries=2, default_retry_delay=7)
def flaky(self: Any) -> int:
    witness("flaky", self.request.id, self.request.retries)
    raise ConnectionError("the other side is down")


@app.task(name="user.asks_again", bind=True, max_retries=5)
def asks_again(self: Any, step: int, **how: Any) -> None:
    witness("asks_again", self.request.id, step)
    raise self.retry(args=[step + 1], countdown=30, **how)


@app.task(name="user.asks_same", bind=True)
def asks_same(self: Any, **what: Any) -> None:
    raise self.retry(countdown=30)


@app.task(name="user.asks_quietly", bind=True)
def asks_quietly(self: Any) -> str:
    self.retry(countdown=1, throw=False)
    return "returned after retry()"


@app.task(name="user.asks_with_rubbish", bind=True)
def asks_with_rubbish(self: Any, number: str | None = None) -> None:
    raise self.retry(args=[object() if number is None else float(number)], countdown=1)


@app.task(name="user.ignores")
def ignores() -> None:
    raise Ignore


@app.task(name="user.puts_back", bind=True, acks_late=True)
def puts_back(self: Any, how_often: int = 99) -> str:
    witness("puts_back", self.request.id)
    if self.request.retries < how_often:
        raise Reject("again", requeue=True)
    return "done at last"


@app.task(name="user.rejects")
def rejects() -> None:
    raise Reject("not this one", requeue=False)


@app.task(name="user.fails")
def fails(length: int = 20) -> None:
    raise ValueError("no good: " + "x" * length)


@app.task(name="user.returns")
def returns(kind: str) -> Any:
    return {"odd": {"a set": {1}}, "long": "y" * 300_000, "object": object()}[kind]


@app.task(name="user.dies", bind=True)
def dies(self: Any) -> None:
    witness("dies", self.request.id)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="user.dies_late", bind=True, acks_late=True, reject_on_worker_lost=True)
def dies_late(self: Any) -> None:
    witness("dies_late", self.request.id)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="user.dies_asking", bind=True, retry_on_worker_lost=True, default_retry_delay=1)
def dies_asking(self: Any) -> None:
    witness("dies_asking", self.request.id)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="user.coroutine")
async def coroutine() -> str:
    witness("coroutine")
    return "never"


@app.task(name="user.generator")
def generator() -> Any:
    witness("generator")
    yield "never"


@app.task(name="Räume auf / now please")
def tidy() -> str:
    return "tidied"


@app.task(name="user.exits")
def exits() -> None:
    raise SystemExit(3)


@app.task(name="user.stubborn", bind=True)
def stubborn(self: Any, gate: str) -> None:
    witness("stubborn", self.request.id)
    while True:
        try:
            wait_for(gate)
        except SoftTimeLimitExceeded:
            witness("told to stop", self.request.id)


@app.task(name="user.deaf", bind=True)
def deaf(self: Any, gate: str) -> str:
    witness("deaf", self.request.id)
    try:
        wait_for(gate)
    except (SystemExit, GreenletExit):
        witness("told to stop", self.request.id)
        wait_for(gate)
    return "through"


@app.task(name="user.nested")
def nested() -> list[Any]:
    direct = add(1, 2)
    eager = add.apply(args=(3, 4)).get(disable_sync_subtasks=False)
    within = who.apply().get(disable_sync_subtasks=False)
    return [direct, eager, within["run"]]


app.register_task(Counter())


@app.task(name="user.logs")
def logs(lines: list[str], fails: bool = True, gate: str | None = None) -> None:
    for line in lines:
        logging.getLogger("userapp").warning("%s", line)
    print(f"printed {lines[0]}")
    get_task_logger("userapp.tasks").error("of a task's logger")
    logging.getLogger("userapp.own").warning("of a logger that ends here")
    witness("pid", os.getpid())
    witness("logged", lines[0])
    if gate is not None:
        wait_for(gate)
        logging.getLogger("userapp").warning("after the gate")
    if fails:
        raise ValueError("as asked")


def over(task_id: str, **_: Any) -> None:
    """Its receiver is called after the product's own."""
    witness("over", task_id)


if not (os.environ.get("SPAWNS") == "unattached" and os.environ.get("FORKED_BY_MULTIPROCESSING")):
    itinerary.attach(app, publish_signals="PUBLISH_SIGNALS" in os.environ, logs=os.environ.get("LOGS", "records"))
if os.environ.get("TELLS_OVER"):
    signals.task_postrun.connect(over, weak=False)


@signals.before_task_publish.connect
def published(sender: str, headers: dict[str, Any], body: Any, **_: Any) -> None:
    witness("published", sender, json.loads(json.dumps(headers))["id"], body[0], body[1])
    headers |= {"tenant": "acme", "kwargs": "of a receiver", "id": "another"}
    headers.setdefault("X-Region", "south")


@signals.after_task_publish.connect
def sent(sender: str, headers: dict[str, Any], routing_key: str, **_: Any) -> None:
    witness("sent", sender, routing_key, headers["tenant"], headers["X-Region"])


@signals.task_prerun.connect
def begun(task_id: str, task: Any, **_: Any) -> None:
    if task.name == "user.tenant":
        witness("prerun", task_id)


@app.task(name="user.tenant", bind=True)
def tenant(self: Any, password: str = "") -> Any:
    assert self.request.kwargs == ({"password": password} if password else {})
    return [self.request.get("tenant"), (self.request.headers or {}).get("tenant")]


@app.task(name="user.late")
def late() -> str:
    witness("late")
    return "registered after attach"


@app.task(name="user.logs_in", bind=True, max_retries=1)
def logs_in(self: Any, times: int, **who: Any) -> Any:
    if times:
        return {"ok": repr(object), "odd": {1, 2}, "whole": [who] * times}
    try:
        raise RuntimeError(f"{who!r}\n{json.dumps(who)}\nhttps://db/?{urlencode(who)}")
    except RuntimeError as exc:
        raise ConnectionError(f"cannot log in as {who['user']} with {who['db_password']}") from exc


@app.task(name="user.counting")
def counting(gate: str) -> None:
    """Counts fast, then waits: the last number must be shown all the same."""
    run = itinerary.current_run()
    assert run is not None
    for row in range(2_001):
        run.progress(row, 5_000, "rows")
    witness("counting", run.run_id)
    wait_for(gate)
