"""Jobs as beat, crontab and Kubernetes read them: exact, or with each difference, or refused by name."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml  # type: ignore[import-untyped]
from celery import Celery

from itinerary.apps.loading import load_app
from itinerary.protocol.instants import DAY, Instant, parse_duration, parse_instant
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import occurrences
from scheduler_service.migrating.celery_call import celery_call
from scheduler_service.migrating.comparing import compare
from scheduler_service.migrating.converted import checked
from scheduler_service.migrating.crontab_file import read_crontab
from scheduler_service.migrating.export_beat import export_beat
from scheduler_service.migrating.export_crontab import export_crontab
from scheduler_service.migrating.export_kubernetes import Cluster, export_kubernetes
from scheduler_service.migrating.exported import Refused, jobs_of
from tests.support.beat import convert_beat

NOW = parse_instant("2026-11-27T10:00:00Z")
CLUSTER = Cluster("shop:1", "shop:app")
COMMAND = {"command": "backup"}


def job(job_id: str, schedule: Any, **fields: Any) -> Job:
    spec = schedule if isinstance(schedule, dict) else {"kind": "cron", "expr": schedule}
    body = {"job_id": job_id, "task": "shop.report", "schedule": spec, "overlap": "allow", **fields}
    return jobs_of([body], NOW)[0]


def configured(text: str) -> Celery:
    held: dict[str, Any] = {}
    exec(compile(text, "exported", "exec"), held)
    app = Celery("back", set_as_current=False)
    app.conf.update(timezone=held["timezone"], beat_schedule=held["beat_schedule"])
    return app


def times(one: Job) -> list[Instant]:
    return occurrences(one.schedule, NOW, NOW + 400 * DAY)


def why(refused: list[Refused]) -> dict[str, str]:
    return {each.job_id: each.why for each in refused}


# beat


@pytest.mark.slow
def test_what_came_from_beat_goes_back_and_comes_again_the_same() -> None:
    first = {entry.converted.name: entry for entry in convert_beat(load_app("tests.migrating.beat_app:app"), NOW)}
    names = ("every quarter", "13th and Friday", "odd steps", "in the gap", "every 30 s", "expiring")
    jobs = [job for name in names if (job := first[name].job) is not None]
    text, refused = export_beat(jobs, NOW, nearest=True)
    assert refused == []
    app = configured(text)
    again = {entry.converted.name: entry for entry in convert_beat(app, NOW)}
    for before in jobs:
        after = again[before.job_id].job
        assert after is not None
        kept = (before.task, before.args, before.kwargs, before.queue, before.priority, before.start_within)
        assert kept == (after.task, after.args, after.kwargs, after.queue, after.priority, after.start_within)
        assert (before.timeout, before.overlap) == (after.timeout, after.overlap)
        assert times(before) == times(after), before.job_id
    assert "# differs: beat counts from its own start" in text


def test_beat_is_given_exactly_what_it_can_say_and_the_rest_is_refused_by_name() -> None:
    jobs = [
        job("plain", "0 3 * * mon", headers={"shadow": "Plain", "tenant": 1}),
        job("hourly", {"kind": "hourly", "minute": 7}),
        job("calendar", {"kind": "calendar", "unit": "day", "every": 1, "at": ["03:00", "15:00"]}),
        job("elsewhere", {"kind": "cron", "expr": "0 3 * * *", "timezone": "Asia/Tokyo"}),
        job("rhythm", {"kind": "interval", "every": "7m"}),
        job("either", "0 3 13 * fri"),
        job("last", "0 3 L * *"),
        job("seconds", "*/10 * * * * *"),
        job("once", {"kind": "once", "at": "2027-01-01T00:00:00Z"}),
        job("skips", "0 3 * * *", overlap="skip"),
        job("retries", "0 3 * * *", retry={"max_attempts": 3}),
        job("paused", "0 3 * * *", paused=True),
        job("typed", "0 3 * * *", args=[{"$type": "decimal", "$value": "1"}]),
        job("hidden", "0 3 * * *", kwargs={"token": "[redacted]"}),
        job("ends", "0 3 * * *", end_at="2027-01-01T00:00:00Z"),
        job("limited", "0 3 * * *", limits=["api"]),
        job("fair", "0 3 * * *", fair_key="acme"),
        job("closed", "0 3 * * *", calendars={"exclude": ["holidays"]}),
        job("window", {"kind": "interval", "every": "1h", "window": {"from": "09:00", "until": "17:00"}}),
        job("second", {"kind": "calendar", "unit": "month", "at": ["03:00"], "weekdays": ["fri"], "nth": [2]}),
        job("rule", {"kind": "rrule", "rrule": "FREQ=DAILY", "dtstart": "2026-01-09T09:00"}),
        job("any", {"kind": "any", "of": [{"kind": "cron", "expr": "0 3 * * *"}]}),
    ]
    text, refused = export_beat(jobs, NOW, nearest=False)
    told = why(refused)
    for name, part in {
        "elsewhere": "one zone for the whole app", "rhythm": "from its own start", "either": "only where both match",
        "last": "L in its line", "seconds": "6 fields", "once": "kind once", "skips": "overlap skip",
        "retries": "3 attempts", "paused": "paused", "typed": "typed values", "hidden": "hidden values",
        "ends": "end_at", "limited": "limits api: nothing there", "fair": "fair_key",
        "closed": "calendars holidays: it runs",
        "window": "anew in each window", "any": "kind any", "rule": "kind rrule", "second": "counts weekdays",
    }.items():  # fmt: skip
        assert part in told.pop(name), name
    assert told == {}
    app = configured(text)
    assert sorted(app.conf.beat_schedule) == ["calendar", "hourly", "plain"]
    options = app.conf.beat_schedule["plain"]["options"]
    assert (options["shadow"], options["headers"]) == ("Plain", {"tenant": 1})
    for entry in convert_beat(app, NOW):  # tasks of other apps in this process are known to this one too
        assert [told for told in entry.converted.differences if "the app has no task" not in told] == []


def test_the_exported_crontab_fires_at_the_jobs_own_times() -> None:
    lines = ["*/20 2-5 1,15 * *", "7,8 0 * 2 *", "0 12 * * 1-5", "59 23 28-31 * *", "30 4 * jan,jul sun"]
    given = [job(f"j{number}", line) for number, line in enumerate(lines)]
    app = configured(export_beat(given, NOW, nearest=False)[0])
    for each in given:
        seen = compare(app.conf.beat_schedule[each.job_id]["schedule"], app, each.schedule, NOW, NOW + 400 * DAY)
        assert (seen.differences, seen.theirs) == ((), len(times(each)))
        assert seen.theirs > 0


def test_a_solar_job_is_celerys_solar_and_comes_again_the_same() -> None:
    place = {"kind": "solar", "event": "dusk_civil", "latitude": 52.52, "longitude": -13.5}
    text, refused = export_beat([job("lights", place), job("plain", "0 2 * * *")], NOW, nearest=False)
    assert refused == []
    (lights, _) = convert_beat(configured(text), NOW)
    assert lights.converted.body is not None
    assert lights.converted.body["schedule"] == {**place, "timezone": "UTC"}


# crontab

CRONTAB = """\
CRON_TZ=Europe/Berlin
# Backup
30 2 * * 1-5 backup --at "10\\%"%first%second

MAILTO="me"
*/10 * * * * poll
0 0 1,15 * 0 both
"""


def test_a_crontab_goes_back_and_comes_again_the_same() -> None:
    first = read_crontab(CRONTAB, task="ops.run", timezone="UTC", now=NOW)
    jobs = [found for moved in first if (found := checked(moved.name, moved.body or {}, (), NOW)[1]) is not None]
    text, refused = export_crontab(jobs, NOW, nearest=False)
    assert refused == []
    again = read_crontab(text, task="ops.run", timezone="UTC", now=NOW)
    for before, moved in zip(jobs, again, strict=True):
        after = checked(moved.name, moved.body or {}, (), NOW)[1]
        assert after is not None
        assert (before.kwargs, before.title) == (after.kwargs, after.title)
        assert times(before) == times(after)


def test_a_systems_crontab_names_users() -> None:
    text, refused = export_crontab(
        [job("mine", "5 4 * * *", kwargs={**COMMAND, "user": "root"}), job("nobodys", "5 4 * * *", kwargs=COMMAND)],
        NOW, nearest=False,
    )  # fmt: skip
    assert text.endswith("CRON_TZ=UTC\n5 4 * * * root backup\n")
    assert "names no user" in why(refused)["nobodys"]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"kwargs": {}}, "given no command alone"),
        ({"kwargs": {"command": "a\nb"}}, "as they are"),
        ({"args": [1]}, "given no command alone"),
        ({"overlap": "skip"}, "overlap skip"),
        ({"timeout": "1m"}, "timeout"),
        ({"paused": True}, "paused"),
        ({"schedule": {"kind": "cron", "expr": "0 0 13 * 5", "day_match": "and"}}, "cron on either"),
        ({"schedule": {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin", "dst_gap": "skip"}},
         "only there at 2027-03-28T01:00:00Z"),
        ({"schedule": {"kind": "interval", "every": "7m"}}, "no even part"),
        ({"schedule": {"kind": "calendar", "unit": "day", "every": 2, "at": ["03:00"]}}, "more than a cron line"),
    ],
)  # fmt: skip
def test_what_cron_cannot_do_is_refused_by_name(fields: dict[str, Any], part: str) -> None:
    given = {"kwargs": COMMAND, "schedule": {"kind": "cron", "expr": "5 4 * * *"}, **fields}
    _, refused = export_crontab([job("one", given.pop("schedule"), **given)], NOW, nearest=False)
    assert part in why(refused)["one"]


def test_a_line_of_quartz_or_spring_is_exported_in_five_fields_or_refused_by_name() -> None:
    lines = {
        "week": ("quartz", "0 15 10 ? * 2-6"), "step": ("spring", "0 */5 9 * * SUN"), "daily": ("spring", "@daily"),
        "last": ("quartz", "0 15 10 ? * 6L"), "years": ("quartz", "0 15 10 * * ? 2027"),
        "seconds": ("spring", "5 0 9 * * *"), "both": ("spring", "0 0 0 13 * FRI"),
    }  # fmt: skip
    jobs = [
        job(name, {"kind": "cron", "expr": expr, "dialect": dialect}, kwargs=COMMAND)
        for name, (dialect, expr) in lines.items()
    ]
    text, refused = export_crontab(jobs, NOW, nearest=False)
    for line in ("15 10 * * 1,2,3,4,5 ", "*/5 9 * * 0 ", "0 0 * * * "):
        assert f"\n{line}" in text
    reasons = why(refused)
    assert set(reasons) == {"last", "years", "seconds", "both"}
    for name, part in (
        ("last", "5l in its line 0 15 10 ? * 6L (15 10 * * 5l here) is known"),
        ("years", "its line 0 15 10 * * ? 2027 (15 10 * * * 0 2027 here) has 7 fields"),
        ("seconds", "6 fields"),
        ("both", "cron on either"),
    ):
        assert part in reasons[name]
    # Celery's crontab joins its days as Spring does.
    text, refused = export_beat(
        [job("both", {"kind": "cron", "expr": "0 0 0 13 * FRI", "dialect": "spring"})], NOW, nearest=False
    )
    assert refused == []
    crontab = configured(text).conf.beat_schedule["both"]["schedule"]
    assert (crontab.day_of_month, crontab.day_of_week, crontab.hour) == ({13}, {5}, {0})


def test_an_interval_that_divides_the_hour_is_a_line() -> None:
    spec = {"kind": "interval", "every": "15m", "offset": "2m"}
    text, refused = export_crontab([job("one", spec, kwargs=COMMAND)], NOW, nearest=False)
    assert refused == []
    assert "\n2,17,32,47 * * * * backup\n" in text


def test_environments_that_would_hold_for_others_are_refused() -> None:
    jobs = [job(name, "5 4 * * *", kwargs={**COMMAND, "env": {name: "1"}}) for name in ("A", "B")]
    text, refused = export_crontab(jobs, NOW, nearest=False)
    assert 'A="1"' in text
    assert why(refused) == {"B": "A of the lines above would hold for it too"}


LATER = {"kind": "calendar", "unit": "day", "every": 1, "at": ["03:00"], "start": "2026-12-15"}
DAILY = {"kind": "interval", "every": "1d", "timezone": "Europe/Berlin"}


def test_a_line_whose_times_are_not_the_jobs_is_not_written_even_as_the_nearest() -> None:
    _, refused = export_beat([job("later", LATER)], NOW, nearest=True)
    assert "no crontab of Celery's has its times" in why(refused)["later"]
    jobs = [job("later", LATER, kwargs=COMMAND), job("daily", DAILY, kwargs=COMMAND)]
    _, refused = export_crontab(jobs, NOW, nearest=True)
    assert "0 3 * * *, the closest, differs at 2026-11-28T03:00:00Z" in why(refused)["later"]
    assert "0 0 * * *, the closest, differs at 2027-03-2" in why(refused)["daily"]


# Kubernetes


def manifests(jobs: list[Job], *, nearest: bool = False) -> tuple[list[dict[str, Any]], dict[str, str]]:
    text, refused = export_kubernetes(jobs, CLUSTER, NOW, nearest=nearest)
    found = [each for each in yaml.safe_load_all(text) if each]
    for each in found:
        kubernetes_validate.validate(each, "1.33", strict=True)
    return found, why(refused)


def test_commands_and_tasks_become_cron_jobs() -> None:
    found, refused = manifests(
        [
            job("Nightly_Backup", "30 4 * * 1-5", kwargs={**COMMAND, "env": {"A": "1"}}, overlap="skip", timeout="1m"),
            job("nightly-backup", "*/5 * * * *", args=[1], kwargs={"n": "x"}, queue="slow", start_within="90s",
                misfire={"policy": "skip", "grace": "60s"}),
            job("rests", "0 0 * * *", kwargs=COMMAND, paused=True, overlap="cancel_running"),
        ]
    )  # fmt: skip
    assert refused == {}
    first, second, third = (each["spec"] for each in found)
    assert [each["metadata"]["name"] for each in found] == ["nightly-backup", "nightly-backup-2", "rests"]
    assert (first["schedule"], first["timeZone"], first["concurrencyPolicy"]) == ("30 4 * * 1,2,3,4,5", "UTC", "Forbid")
    pod = first["jobTemplate"]["spec"]
    assert pod["activeDeadlineSeconds"] == 60
    (container,) = pod["template"]["spec"]["containers"]
    assert container["command"] == ["/bin/sh", "-c", "backup"]
    assert container["env"] == [{"name": "A", "value": "1"}]
    assert second["startingDeadlineSeconds"] == 60
    (container,) = second["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert container["command"][:8] == ["celery", "-A", "shop:app", "call", "shop.report", "--queue", "slow", "--args"]
    assert container["command"][8:] == ["[1]", "--kwargs", '{"n": "x"}', "--expires", "90"]
    assert (third["suspend"], third["concurrencyPolicy"]) == (True, "Replace")


def test_what_a_cron_job_cannot_do_is_refused_or_named() -> None:
    berlin = {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin"}
    jobs = [
        job("queues", "5 4 * * *", kwargs=COMMAND, overlap="queue"),
        job("task-skips", "5 4 * * *", overlap="skip"),
        job("fed", "5 4 * * *", kwargs={**COMMAND, "stdin": "x\n"}),
        job("clocks", berlin, kwargs=COMMAND),
        job("listed", "5 4 * * *", kwargs={**COMMAND, "env": ["A=1"]}),
        job("fraction", "5 4 * * *", kwargs=COMMAND, timeout="1500ms"),
    ]
    found, refused = manifests(jobs)
    assert found == []
    for name, part in {
        "queues": "no queue of its own", "task-skips": "whether or not the last one is over", "fed": "stdin",
        "clocks": "2027-03-28", "listed": "no object of names", "fraction": "timeout 1500ms",
    }.items():  # fmt: skip
        assert part in refused[name]
    found, refused = manifests(jobs, nearest=True)
    assert sorted(refused) == ["fed", "listed", "queues"]
    named = ["task-skips", "clocks", "fraction"]
    assert [each["metadata"]["annotations"]["itinerary/job-id"] for each in found] == named
    assert found[2]["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 2


@pytest.mark.parametrize("within", ["1.25s", "90s", "1234567s", "12345678.9s"])
def test_a_start_deadline_of_a_call_is_exact(within: str) -> None:
    (found,), _ = manifests([job("one", "5 4 * * *", start_within=within)])
    command = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"]
    fields = celery_call(command) or {}
    assert parse_duration(fields["start_within"]) == parse_duration(within)


def test_without_an_app_a_task_is_refused() -> None:
    _, refused = export_kubernetes([job("one", "5 4 * * *")], Cluster("shop:1"), NOW, nearest=False)
    assert "--celery-app" in why(refused)["one"]


@pytest.mark.slow
def test_the_exported_module_is_taken_by_celery_itself(tmp_path: Path) -> None:
    (tmp_path / "moved_back.py").write_text(export_beat([job("plain", "0 3 * * mon")], NOW, nearest=False)[0])
    program = "import celery; a = celery.Celery(); a.config_from_object('moved_back'); print(a.conf.beat_schedule)"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert "<crontab: 0 3 * * 1 (m/h/dM/MY/d)>" in ended.stdout, ended.stderr
