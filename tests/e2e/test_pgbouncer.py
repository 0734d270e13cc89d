"""The whole system through PgBouncer in transaction mode, as it comes: leaders, API, worker, prune, and a password."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from itinerary.client.sync import enqueue_in
from tests.support.deployment import Deployment
from tests.support.pgbouncer import ABSENT, PgBouncer, find_pgbouncer
from tests.support.processes import wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.postgres,
    pytest.mark.skipif(find_pgbouncer() is None, reason=ABSENT),
]
PASSWORD = "se/cr et@x#%?"
CALLERS, CALLS = 6, 15


@pytest.mark.parametrize("leads", ["through it", "directly"])
def test_what_was_answered_is_there_and_runs(leads: str, module_postgres_url: str, tmp_path: Path) -> None:
    with PgBouncer(module_postgres_url, size=3) as pooler:
        through = pooler.url.replace("postgres@", f"postgres:{PASSWORD}@", 1)
        settings = {"ITINERARY_DATABASE_DIRECT_URL": module_postgres_url} if leads == "directly" else {}
        app = "tests.e2e.recording_app:app"
        record = str(tmp_path / "record.jsonl")
        with (
            Deployment(tmp_path, through, app=app, RECORD_FILE=record, **settings) as system,
            system.client() as client,
        ):

            def call(_: int) -> list[str]:
                made = []
                with system.client() as mine:
                    for _number in range(CALLS):
                        run_id = str(mine.enqueue("recording.note", kwargs={"seconds": 0})["run_id"])
                        assert mine.run(run_id)["run_id"] == run_id, "a run that was answered is there"
                        assert mine.runs(limit=5)["items"]
                        made.append(run_id)
                return made

            with ThreadPoolExecutor(CALLERS) as pool:
                run_ids = [run_id for made in pool.map(call, range(CALLERS)) for run_id in made]
            url = make_url(pooler.url).set(drivername="postgresql").render_as_string(hide_password=False)
            with psycopg.connect(url) as mine:
                run_ids.append(enqueue_in(mine, "recording.note"))
            wait_until(lambda: {client.run(r)["state"] for r in run_ids} == {"completed"}, what=lambda: system.output)
            for words in (["prune"], ["doctor"], ["migrate"]):
                done = subprocess.run(
                    [sys.executable, "-m", "scheduler_service.cli", *words],
                    env=system.env, capture_output=True, text=True,
                )  # fmt: skip
                assert words == ["doctor"] or done.returncode == 0, done.stderr
                assert PASSWORD not in done.stdout + done.stderr
                assert "cr et" not in done.stdout + done.stderr
            said = system.output
        assert not re.search("prepared statement|unsupported startup|database away|does not answer", said), said
        assert "cr et" not in said
        assert ("notices are not heard through a pooler" in said) == (leads == "through it")
