"""`itinerary prune` and what `itinerary doctor` says of history."""

import json
from pathlib import Path

import pytest

from itinerary.protocol.instants import DAY
from scheduler_service.cli.doctor import history
from scheduler_service.config.settings import Settings
from tests.support.command_line import Itinerary
from tests.support.old_runs import keep, kept_of, old_run
from tests.support.processes import project_env
from tests.support.store_bed import sql_bed

pytestmark = pytest.mark.slow


def test_what_is_old_is_counted_then_deleted_and_a_day_is_the_least(sqlite_url: str, tmp_path: Path) -> None:
    itinerary = Itinerary(project_env(ITINERARY_DATABASE_URL=sqlite_url, ITINERARY_DATA_DIR=str(tmp_path)))
    with sql_bed(sqlite_url) as bed:
        lease = bed.lead()
        bed.planned_job(lease)
        assert bed.database is not None
        ids = keep(bed.database, *(old_run(lease.now - age * DAY) for age in (1, 8, 9, 31)))
        counted = json.loads(itinerary.done("prune", "--older-than", "7d", "--dry-run", "--json"))
        assert (counted["dry_run"], counted["rows"]["runs"], len(kept_of(bed.database, ids))) == (True, 3, 4)
        settings = Settings(database_url=sqlite_url)
        assert history(settings) == "finished runs are kept for 30d; 1 are older; sweeps: none ended so far"
        assert "deleted 1 of runs" in itinerary.done("prune"), "a leader's sweep"
        assert "deleted 2 of runs, 0 of gaps" in itinerary.done("prune", "--older-than", "7d")
        assert kept_of(bed.database, ids) == ids[:1]
        assert "0 are older; sweeps: the last ended" in history(settings)
        refused = itinerary("prune", "--older-than", "23h")
        assert (refused.returncode, "--older-than" in refused.stderr) == (2, True)
