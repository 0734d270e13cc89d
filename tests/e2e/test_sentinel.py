"""The whole system on a Redis behind Sentinels: its master is killed under load, and nothing is lost or runs twice."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.deployment import Deployment
from tests.support.processes import wait_until
from tests.support.sentinels import MASTER, Sentinels

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.postgres]

BEFORE, AFTER = 150, 150


def test_a_master_that_dies_under_load_loses_and_doubles_nothing(module_postgres_url: str, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    redis = Sentinels(tmp_path)
    of_app = {"BROKER_OF_APP": redis.address.broker_url, "MASTER_NAME": MASTER, "RECORD_FILE": str(record)}
    app = "tests.e2e.recording_app:app"
    timing = {"ITINERARY_LOST_AFTER": "6s", "ITINERARY_REDISPATCH_AFTER": "4s"}
    with (
        Deployment(tmp_path, module_postgres_url, app=app, redis=redis, **of_app, **timing) as system,
        system.client() as client,
    ):
        note = {"task": "recording.note", "kwargs": {"seconds": 0.02}}
        run_ids = [run["run_id"] for run in client.enqueue_batch([note] * BEFORE)]
        wait_until(lambda: record.exists() and len(record.read_text().splitlines()) > 40, what=lambda: system.output)
        redis.kill()
        run_ids += [run["run_id"] for run in client.enqueue_batch([note] * AFTER)]

        def ended() -> bool:
            # Celery can give up where a connection breaks as it opens; a service manager starts the worker again.
            if not system.parts["worker"].running:
                system.start("worker")
            states = Counter(run["state"] for run in client.all_runs())
            return states["completed"] + states["failed"] == len(run_ids)

        wait_until(ended, what=lambda: redis.output[-3000:] + system.output[-3000:], every=0.5)
        runs = [client.run(run_id) for run_id in run_ids]
        started = Counter(
            entry["task_id"] for entry in map(json.loads, record.read_text().splitlines()) if entry["event"] == "start"
        )
    assert {run["state"] for run in runs} == {"completed"}
    assert {run["attempt"] for run in runs} == {1}, "no attempt was given up"
    assert started == Counter({f"{run_id}~1": 1 for run_id in run_ids})
