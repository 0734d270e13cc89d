"""A worker that costs little: pops, claims and reports in pipelines, so that the leader is what is measured.

`python -m tests.benchmarks.pipeline_worker`. What it writes into Redis is what real workers write, by their own scripts
and in their own words; only the tasks are not there. It is heard every two seconds like any other.
"""

import os
import time
from typing import Any, Final
from uuid import uuid4

import orjson
import redis

from itinerary.protocol.instants import Instant
from itinerary.protocol.keys import Keys
from itinerary.protocol.wire import HEADER_QUEUE, HEADER_SEQ, QUERY_EPOCH, RECALLS_FIELD, entry
from itinerary.worker.claim import claim
from itinerary.worker.connection import RedisConnection
from itinerary.worker.reporting import ReportBuilder, clock, send
from tests.benchmarks.bed import QUEUE

KEYS = Keys()

WORKER: Final = "pipeline@bench"
AT_ONCE: Final = 250
_WAIT: Final = 0.5
_BEAT: Final = 2.0


class Collected(RedisConnection):
    """Stands where a worker has its connection: scripts are collected, and go out together."""

    def __init__(self, client: redis.Redis) -> None:
        self.keys = KEYS
        self._redis = client
        self._pipe = client.pipeline(transaction=False)
        self._known: dict[str, str] = {}

    def run_script(self, text: str, keys: list[str], args: list[str]) -> Any:
        """Collect it; the answer given here is the usual one."""
        sha = self._known.get(text)
        if sha is None:
            sha = self._known[text] = str(self._redis.script_load(text))
        self._pipe.execute_command("EVALSHA", sha, len(keys), *keys, *args)
        return "won"

    def answers(self) -> list[Any]:
        """Send what was collected."""
        return self._pipe.execute()


def main() -> None:
    """Work until ended."""
    client = redis.Redis.from_url(os.environ["ITINERARY_REDIS_URL"], decode_responses=True, protocol=2)
    collected, beaten_at = Collected(client), float("-inf")
    while True:
        if time.monotonic() - beaten_at >= _BEAT:
            _beat(client)
            beaten_at = time.monotonic()
        first: Any = client.brpop([QUEUE], _WAIT)
        if first is None:
            continue
        more: Any = client.rpop(QUEUE, AT_ONCE - 1)
        _work(collected, [first[1], *(more or ())])


def _beat(client: redis.Redis) -> None:
    answer: Any = client.eval(QUERY_EPOCH, 3, KEYS.epoch, KEYS.epoch_seen, KEYS.server_mark, uuid4().hex)
    body = {"worker": WORKER, "running": [], "received": [], "concurrency": 1, "queues": [QUEUE], RECALLS_FIELD: True}
    said: Any = entry("heartbeat", clock(), {**body, "generation": answer[0]})
    client.xadd(KEYS.inbox, said)


def _work(collected: Collected, messages: list[str]) -> None:
    headers = [orjson.loads(message)["headers"] for message in messages]
    at, token = clock(), uuid4().hex
    for header in headers:
        claim(collected, header["id"], token, WORKER, at, header[HEADER_SEQ], header[HEADER_QUEUE])
    won = [header["id"] for header, verdict in zip(headers, collected.answers(), strict=True) if verdict == "won"]
    _report(collected, won, token, at)


def _report(collected: Collected, won: list[str], token: str, started_at: Instant) -> None:
    for task_id in won:
        send(collected, ReportBuilder(task_id, WORKER, started_at).succeeded(None), token, claimed=True)
    collected.answers()


if __name__ == "__main__":
    main()
