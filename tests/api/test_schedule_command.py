"""`itinerary schedule ...`: bars for people, JSON for programs."""

import json
from contextlib import closing

import pytest

from scheduler_service.cli.schedule import bars
from scheduler_service.sql.database import Database, host_now
from tests.support.command_line import Itinerary
from tests.support.leading import LeaderThread
from tests.support.placed_jobs import cluster
from tests.support.processes import wait_until

pytestmark = pytest.mark.slow  # whole processes, or real servers for long


def test_an_hour_is_a_line_and_its_quarters_are_beside_it() -> None:
    lines = bars("2026-11-30T22:30:00Z", [1, 0, 4, 4, 4, 4, *[0] * 86, 2, 2, 0, 0])
    assert lines[0].split() == ["22:00", "··▂·", "██▌", "1"]
    assert lines[1].split() == ["23:00", "████", "█" * 40, "16"]
    assert [line[:5] for line in lines[2:4]] == ["00:00", "01:00"]
    assert len(lines) == 25


def test_where_the_terminal_has_no_blocks_it_is_drawn_with_letters() -> None:
    assert bars("2026-11-30T22:00:00Z", [2, 0, 1, 1], plain=True) == ["22:00  @.++  " + "#" * 40 + " 4"]


def test_an_empty_day_is_drawn_too() -> None:
    assert bars("2026-11-30T22:00:00Z", [0] * 4) == ["22:00  ····   0"]


def test_a_schedule_is_seen_previewed_evened_out_and_put_back(itinerary: Itinerary) -> None:
    url = f"sqlite:///{itinerary.env['ITINERARY_DATA_DIR']}/itinerary.db"
    with closing(Database(url, pool_size=1)) as database:
        cluster(database, [f"job{n}" for n in range(8)], host_now())
    with LeaderThread(url, itinerary.env["ITINERARY_REDIS_URL"]):
        wait_until(lambda: itinerary("schedule", "distribution").returncode == 0, what="a leader")
        seen = itinerary.done("schedule", "distribution")
        assert "8 jobs, 32 runs; score 0." in seen
        assert "consider a rebalance." in seen
        plan = json.loads(itinerary.done("schedule", "rebalance", "--preview", "--json"))
        text = itinerary.done("schedule", "rebalance", "--preview")
        assert f"would move {plan['would_move']}, leave 0" in text
        done = itinerary.done("schedule", "rebalance", "--plan", plan["plan_id"])
        assert f"moved {plan['would_move']}, left 0" in done
        assert f"moved {plan['would_move']}, left 0" in itinerary.done("schedule", "rebalance", "--undo")
        refused = itinerary("schedule", "rebalance", "--undo")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "no rebalance to undo" in refused.stderr
    wrong = itinerary("schedule", "rebalance", "--undo", "--preview")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
