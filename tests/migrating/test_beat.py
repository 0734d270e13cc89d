"""Beat schedules moved in: what becomes of each kind of entry, and where the times differ."""

import copy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import crontab, schedule

from itinerary.apps.loading import load_app
from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import DAY, MINUTE, SECOND, Instant, format_instant, parse_instant
from scheduler_service.core.schedules.schedule import occurrences, parse_schedule
from scheduler_service.migrating.beat_entry import ConvertedEntry
from scheduler_service.migrating.beat_fires import beat_fires
from scheduler_service.migrating.beat_schedules import spec_of
from scheduler_service.migrating.comparing import compare
from scheduler_service.migrating.rate_limits import rate_of
from tests.support.beat import convert_beat

NOW = parse_instant("2026-11-27T10:00:00Z")


@pytest.fixture(scope="module")
def converted() -> dict[str, ConvertedEntry]:
    app = load_app("tests.migrating.beat_app:app")
    return {entry.entry.name: entry for entry in convert_beat(app, NOW)}


def body(entry: ConvertedEntry) -> dict[str, Any]:
    assert entry.converted.body is not None, entry.converted.refused
    return dict(entry.converted.body)


def test_a_crontab_keeps_its_text_its_zone_and_its_arguments(converted: dict[str, ConvertedEntry]) -> None:
    assert body(converted["every quarter"]) == {
        "job_id": "every-quarter",
        "title": "every quarter",
        "task": "shop.report",
        "args": [1, 2],
        "kwargs": {},
        "schedule": {"kind": "cron", "expr": "*/15 * * * *", "timezone": "Europe/Paris"},
        "overlap": "allow",
        "queue": "celery",
    }


def test_both_day_fields_are_meant_and_names_and_odd_steps_mean_the_same(converted: dict[str, ConvertedEntry]) -> None:
    both = body(converted["13th and Friday"])["schedule"]
    assert (both["expr"], both["day_match"]) == ("0 0 13 * 5", "and")
    assert body(converted["odd steps"])["schedule"]["expr"] == "4,50,57 22-2 * 3 *"


def test_seconds_become_an_interval_and_the_other_phase_is_told(converted: dict[str, ConvertedEntry]) -> None:
    entry = converted["every 30 s"]
    assert body(entry)["schedule"] == {"kind": "interval", "every": "30s", "timezone": "Europe/Paris"}
    assert body(entry)["queue"] == "mail"
    assert "beat counts from its start" in entry.converted.differences[0]


def test_the_rate_limit_of_a_task_is_offered_as_a_limit(converted: dict[str, ConvertedEntry]) -> None:
    told = [text for text in converted["every 30 s"].converted.differences if "rate_limit" in text]
    assert len(told) == 1
    assert "rate_limit 10/m holds in each worker by itself" in told[0]
    assert '`itinerary limits set shop.mail --rate 10/1m`, then `"limits": ["shop.mail"]` in the job' in told[0]
    assert not [text for text in converted["daily"].converted.differences if "rate_limit" in text]


@pytest.mark.parametrize(
    ("rate_limit", "rate"),
    [
        ("10/m", "10/1m"), (5, "5/1s"), ("100/h", "100/1h"), (0.5, "1/2s"), ("1.5/m", "3/2m"), (" 3 / s ", "3/1s"),
        ("0.001/h", None), (1_000_000, None), ("0/m", None), ("ten", None), ("1/d", None), (1.5, "3/2s"),
    ],
)  # fmt: skip
def test_a_rate_of_celery_is_one_that_a_limit_can_have_or_none(rate_limit: Any, rate: str | None) -> None:
    assert rate_of(rate_limit) == rate


def test_relative_days_become_midnights(converted: dict[str, ConvertedEntry]) -> None:
    assert body(converted["daily"])["schedule"] == {
        "kind": "calendar", "unit": "day", "every": 1, "at": ["00:00"], "timezone": "Europe/Paris",
    }  # fmt: skip


def test_options_become_fields_and_what_is_lost_is_told(converted: dict[str, ConvertedEntry]) -> None:
    entry = converted["expiring"]
    wanted = {"queue": "slow", "priority": 3, "timeout": "1m", "start_within": "90s"}
    assert {key: body(entry)[key] for key in wanted} == wanted
    told = "\n".join(entry.converted.differences)
    for part in ("dropped by a worker that gets to it later than 90s", "job's timeout 1m", "option countdown"):
        assert part in told


def test_arguments_that_celery_s_messages_can_carry_are_moved_with_their_types(
    converted: dict[str, ConvertedEntry],
) -> None:
    assert body(converted["typed"])["args"] == [
        {"$type": "decimal", "$value": "1.10"},
        {"$type": "uuid", "$value": "00000000-0000-0000-0000-000000000001"},
        {"$type": "bytes", "$value": "AP8="},
    ]
    assert body(converted["typed"])["kwargs"] == {
        "since": {"$type": "datetime", "$value": "2026-01-01T00:00:00+00:00"},
        "marked": {"__type__": "x", "__value__": 1},
    }


def test_task_names_are_moved_as_they_are(converted: dict[str, ConvertedEntry]) -> None:
    assert body(converted["Räume auf"])["task"] == "Räume auf / now"


def test_a_solar_entry_keeps_its_event_and_place_in_the_apps_zone(converted: dict[str, ConvertedEntry]) -> None:
    place = {"latitude": 48.86, "longitude": 2.35, "timezone": "Europe/Paris"}
    assert body(converted["at sunset"])["schedule"] == {"kind": "solar", "event": "sunset", **place}
    assert converted["at sunset"].converted.differences == ()


def test_an_entry_added_by_code_is_moved_too(converted: dict[str, ConvertedEntry]) -> None:
    assert body(converted["by code"])["args"] == ["by code"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("own schedule", "Fortnight is a schedule of its own making"),
        ("false clock", "nowfun tells another time"),
        ("half a second", "whole seconds"),
        ("lazy", "BeatLazyFunc"),
        ("not JSON", "not JSON"),
        ("once", "would run once"),
    ],
)
def test_what_has_no_equal_is_refused_by_name(converted: dict[str, ConvertedEntry], name: str, why: str) -> None:
    assert converted[name].job is None
    assert why in str(converted[name].converted.refused)


def test_what_may_surprise_is_told(converted: dict[str, ConvertedEntry]) -> None:
    assert "nowfun is not carried over" in converted["own clock"].converted.differences[0]
    assert "no task shop.gone" in converted["no such task"].converted.differences[0]


def test_the_coming_changes_of_the_clocks_are_told_where_they_make_a_difference(
    converted: dict[str, ConvertedEntry],
) -> None:
    (fold,) = converted["every quarter"].converted.differences
    assert fold.startswith("on 2027-10-31, when the clocks of Europe/Paris go back from 03:00 to 02:00")
    assert "only here it runs at 02:00+01:00, 02:15+01:00, 02:30+01:00, ... (4x)" in fold
    (gap,) = converted["odd steps"].converted.differences
    assert "jump from 02:00 to 03:00: only" in gap
    assert converted["by code"].converted.differences == ()


def test_the_rule_for_skipped_times_is_the_one_that_comes_closest_to_celerys(
    converted: dict[str, ConvertedEntry],
) -> None:
    entry = converted["in the gap"]
    assert body(entry)["schedule"]["dst_gap"] == "shift"
    assert entry.converted.differences == ()


def test_beats_own_clean_up_comes_along_where_a_backend_needs_it() -> None:
    app = Celery("x", broker="redis://127.0.0.1:1/0", backend="cache+memory://")
    needs = [entry.entry.name for entry in convert_beat(app, NOW)]
    assert needs == ([] if app.backend.supports_autoexpire else ["celery.backend_cleanup"])
    app = Celery("x", broker="redis://127.0.0.1:1/0", backend="file:///tmp")
    assert [entry.entry.name for entry in convert_beat(app, NOW)] == ["celery.backend_cleanup"]


def test_on_amqp_the_greatest_priority_goes_first() -> None:
    app = Celery("x", broker="amqp://nobody")
    app.conf.beat_schedule = {"a": {"task": "t", "schedule": 60, "options": {"priority": 9}}}
    (entry,) = convert_beat(app, NOW)
    assert body(entry)["priority"] == 0


@pytest.mark.parametrize("place", ["no_such_module_at_all:app", "tests.migrating.beat_app:nothing"])
def test_an_app_that_cannot_be_loaded_is_said_in_words(place: str) -> None:
    with pytest.raises(ItineraryError, match=place.partition(":")[0]):
        load_app(place)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("os.no_such_name", "AttributeError: module 'os' has no attribute 'no_such_name'"),
        ("import workers_no_more", "ModuleNotFoundError: No module named 'workers_no_more'"),
        ("from workers import attach", "`import workers` is now `import itinerary`"),
    ],
)
def test_what_is_wrong_within_the_app_s_own_module_is_said(
    statement: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app_with_a_fault.py").write_text(f"import os\n{statement}\napp = None\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ItineraryError) as raised:
        load_app("app_with_a_fault:app")
    assert message in str(raised.value)


# The paper beat itself


def zoned(name: str) -> Celery:
    app = Celery("zoned", broker="redis://127.0.0.1:1/0")
    app.conf.timezone = name
    return app


def local(times: list[Instant], zone: str) -> list[str]:
    return [datetime.fromisoformat(format_instant(at)).astimezone(ZoneInfo(zone)).strftime("%H:%M%z") for at in times]


def test_the_paper_beat_fires_as_was_measured_in_the_repeated_hour() -> None:
    app, start = zoned("Europe/Paris"), parse_instant("2025-10-25T23:50:00Z")
    fired = beat_fires(crontab(minute="*/15"), app, start, start + 150 * MINUTE)
    assert local(fired, "Europe/Paris")[:6] == [
        "02:00+0200", "02:15+0200", "02:30+0200", "02:45+0200", "03:00+0100", "03:15+0100",
    ]  # fmt: skip


def test_the_paper_beat_leaves_the_apps_schedule_as_it_was() -> None:
    given = crontab(minute="*/15")
    before = copy.copy(given.__dict__)
    beat_fires(given, zoned("UTC"), NOW, NOW + DAY)
    assert given.__dict__ == before


@pytest.mark.slow
def test_without_changes_of_the_clocks_both_run_at_the_same_times() -> None:
    app = zoned("Asia/Tokyo")
    for fields in (
        {"minute": "*/7"}, {"hour": "*/5", "minute": 3}, {"day_of_month": "1,31", "hour": 0, "minute": 0},
        {"day_of_week": "mon-fri", "hour": "9-17", "minute": 0}, {"month_of_year": "2", "hour": 1, "minute": 1},
        {"day_of_month": "*/10", "day_of_week": "1-3", "hour": 0, "minute": 0}, {"minute": "59", "hour": "23"},
    ):  # fmt: skip
        given = crontab(**fields)
        spec, _ = spec_of(given, app)
        ours = parse_schedule(spec, job_id="a", created_at=NOW).schedule
        found = compare(given, app, ours, NOW, NOW + 100 * DAY)
        assert found.differences == (), fields
        assert found.theirs == found.itinerary == len(occurrences(ours, NOW + 1, NOW + 100 * DAY))


def test_an_interval_of_another_phase_is_told_once_not_instant_by_instant() -> None:
    app, given = zoned("UTC"), schedule(timedelta(minutes=7))
    spec, _ = spec_of(given, app)
    ours = parse_schedule(spec, job_id="a", created_at=NOW).schedule
    found = compare(given, app, ours, NOW, NOW + DAY)
    assert found.differences == ()
    assert "the same rhythm" in str(found.note)


@pytest.mark.slow
def test_every_difference_at_a_change_of_the_clocks_is_explained_by_it() -> None:
    app = zoned("America/New_York")
    start = parse_instant("2027-03-10T00:00:00Z")
    for fields in ({"minute": "*/20"}, {"minute": 30, "hour": "1,2"}, {"minute": 0, "hour": "*/2"}):
        given = crontab(**fields)
        ours = parse_schedule(spec_of(given, app)[0], job_id="a", created_at=start).schedule
        for found in compare(given, app, ours, start, start + 260 * DAY).differences:
            assert "New_York" in found.why
            assert found.at % (10 * SECOND) == 0
