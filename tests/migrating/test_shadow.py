"""Other schedulers' own times beside ours, in the weeks in which the clocks change; what is missing is named."""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest
import yaml  # type: ignore[import-untyped]
from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import-untyped]

from itinerary.apps.apscheduler_jobs import export_apscheduler
from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import DAY, HOUR, SECOND, Instant, parse_instant, to_datetime
from scheduler_service.core.schedules.cron_fields import FIVE, read_field
from scheduler_service.migrating.apscheduler_export import read_apscheduler
from scheduler_service.migrating.comparing import Comparison, compare_converted
from scheduler_service.migrating.converted import Converted
from scheduler_service.migrating.crontab_file import read_crontab
from scheduler_service.migrating.kubernetes_file import read_kubernetes
from scheduler_service.migrating.systemd_timers import read_timers
from scheduler_service.migrating.systemd_units import units_of
from scheduler_service.migrating.their_times import NotTheirs, chained, cron_fires, naive_cron
from tests.migrating.apscheduler_app import report

SPRING, AUTUMN = parse_instant("2027-03-25T00:00:00Z"), parse_instant("2027-10-28T00:00:00Z")
SPAN = 4 * DAY
ZONE = "Europe/Berlin"


def compared(who: str, entries: Sequence[Converted], start: Instant) -> dict[str, Comparison]:
    found = {each.name: compare_converted(who, each, start, start + SPAN) for each in entries}
    return {name: each for name, each in found.items() if each is not None}


def crontab(*lines: str, now: Instant = SPRING) -> list[Converted]:
    return read_crontab("".join(f"{line} c\n" for line in lines), task="t", timezone=ZONE, now=now)


def manifests(*lines: str, now: Instant = SPRING) -> list[Converted]:
    pod = {"containers": [{"name": "c", "image": "i", "command": ["b"]}]}
    held = [
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": f"n{number}"},
            "spec": {"schedule": line, "timeZone": ZONE, "jobTemplate": {"spec": {"template": {"spec": pod}}}},
        }
        for number, line in enumerate(lines)
    ]
    return read_kubernetes(yaml.safe_dump_all(held), task="t", timezone="UTC", now=now)


def timers(*events: str, now: Instant = SPRING) -> list[Converted]:
    text = "# /x/a.service\n[Service]\nExecStart=/bin/b\n# /x/a.timer\n[Timer]\n"
    units = units_of(text + "".join(f"{event}\n" for event in events))
    return read_timers(units, task="t", timezone=ZONE, now=now)


LINES = ("30 2 * * *", "*/30 * * * *", "@daily", "0 0 13,28 * sun", "15 2 * * sun", "59 23 * * *", "*/20 1-3 * * *")


@pytest.mark.parametrize("start", [SPRING, AUTUMN])
def test_a_crontab_fires_as_its_shadow(start: Instant) -> None:
    for name, found in compared("crontab", crontab(*LINES, now=start), start).items():
        assert (found.differences, found.note) == ((), None), name
        assert found.theirs == found.itinerary > 0, name


@pytest.mark.parametrize("start", [SPRING, AUTUMN])
def test_a_cronjob_fires_as_its_shadow(start: Instant) -> None:
    seen = compared("kubernetes", manifests(*LINES, "5/20 0/6 * * *", "0 0 */2 * mon", now=start), start)
    assert len(seen) == len(LINES) + 2
    for name, found in seen.items():
        assert (found.differences, found.note) == ((), None), name
    assert sum(found.theirs for found in seen.values()) > 250
    (every,) = compared("kubernetes", manifests("@every 90m", now=start), start).values()
    assert "the same rhythm" in str(every.note)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("start", [SPRING, AUTUMN])
def test_a_timer_fires_as_its_shadow(start: Instant) -> None:
    events = ("2:30", "*:0/20", "Sun 03:00 America/New_York", "*-*~1,2,3,4 10:00", "0/2:15:30")
    seen = compared("systemd", timers(*(f"OnCalendar={event}" for event in events), now=start), start)
    assert len(seen) == len(events)
    for name, found in seen.items():
        assert (found.differences, found.note) == ((), None), name
        assert found.theirs == found.itinerary > 0, name


def test_jobs_of_apscheduler_fire_as_their_shadow() -> None:
    given = BackgroundScheduler(timezone=ZONE)
    given.add_job(report, "cron", hour="1-4", minute="*/20", id="quarters")
    given.add_job(report, "cron", day_of_week="sun,mon", hour=9, id="days")
    given.add_job(report, "date", run_date=to_datetime(SPRING + DAY), id="once")
    given.add_job(report, "interval", minutes=7, id="seven", start_date=to_datetime(SPRING - DAY))
    span = to_datetime(SPRING), to_datetime(SPRING + SPAN)
    text = json.dumps(export_apscheduler(given, "m:s", unpickle=False, span=span))
    seen = compared("apscheduler", read_apscheduler(text, "m:s", task="t", queue=None, now=SPRING)[1], SPRING)
    assert set(seen) == {"quarters", "days", "once", "seven"}
    for name, found in seen.items():
        assert (found.differences, found.note) == ((), None), name
        assert found.theirs == found.itinerary > 0, name


@pytest.mark.parametrize(
    ("line", "first", "times"),
    [
        (
            "30 2 * * *",
            "2027-03-27T01:30:00Z",
            ["2027-03-27T01:30:00Z", "2027-03-28T01:30:00Z", "2027-03-29T00:30:00Z"],
        ),
        # The second of the skipped hour is lost: by then the clock shows a later hour.
        ("0,30 2 * * *", "2027-03-28T01:00:00Z", ["2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z"]),
        ("30 2 13 * fri", "2027-08-13T00:30:00Z", ["2027-08-13T00:30:00Z", "2028-10-13T00:30:00Z"]),
    ],
)
def test_rq_scheduler_counts_on_a_clock_without_a_zone(line: str, first: str, times: list[str]) -> None:
    masks = [read_field(kind, field, "").mask for kind, field in zip(FIVE, line.split(), strict=True)]
    due = parse_instant(first)
    found = chained(due, naive_cron(masks, ZONE), len(times))
    assert list(found(due - 1, due + 1_000 * DAY)) == [parse_instant(text) for text in times]


def test_a_wrong_translation_does_not_go_unseen() -> None:
    (entry,) = crontab("30 5 * * *")
    wrong = {**dict(entry.body or {}), "schedule": {"kind": "cron", "expr": "30 5 * * mon-sat", "timezone": ZONE}}
    (found,) = compared("crontab", [replace(entry, body=wrong)], AUTUMN - 7 * DAY).values()
    assert [each.only for each in found.differences] == ["crontab"]
    assert "please report it" in found.differences[0].why


def test_what_is_missing_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(ItineraryError, match=r"cronsim, which is not installed: .* -m pip install cronsim"):
        compared("crontab", crontab("30 2 * * *"), SPRING)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ItineraryError, match="systemd-analyze, which is not on PATH"):
        compared("systemd", timers("OnCalendar=2:30"), SPRING)
    assert compared("systemd", timers("OnUnitActiveSec=1h"), SPRING)["a.timer"].theirs == SPAN // HOUR - 1


def test_a_line_that_cron_itself_does_not_read_is_named() -> None:
    with pytest.raises(NotTheirs, match="cron does not read H 2"):
        cron_fires("H 2 * * *", ZONE)(SPRING, SPRING + SECOND)
