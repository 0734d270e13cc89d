"""CronJob manifests moved in: the dialect of the schedule, each field, and what has no place here."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml  # type: ignore[import-untyped]

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, from_datetime, parse_instant
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.schedules.schedule import occurrences, parse_schedule
from scheduler_service.migrating.converted import CannotConvert, Converted
from scheduler_service.migrating.export_kubernetes import Cluster, export_kubernetes
from scheduler_service.migrating.exported import jobs_of
from scheduler_service.migrating.kubernetes_cron import kubernetes_spec
from scheduler_service.migrating.kubernetes_file import read_kubernetes

NOW = parse_instant("2026-11-27T10:00:00Z")
SHELL = ["/bin/sh", "-c", "backup | gzip > /srv/b.gz"]


def manifest(schedule: str = "30 2 * * 1-5", **parts: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "shop:1", "command": SHELL, **parts.pop("container", {})}
    pod = {"restartPolicy": "Never", "containers": [container], **parts.pop("pod", {})}
    job = {"backoffLimit": 0, "template": {"spec": pod}, **parts.pop("job", {})}
    spec = {"schedule": schedule, "timeZone": "Europe/Berlin", "jobTemplate": {"spec": job}, **parts.pop("spec", {})}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "backup"}, "spec": spec, **parts}


def read(*objects: Any, task: str | None = "ops.run") -> list[Converted]:
    return read_kubernetes(yaml.safe_dump_all(objects), task=task, timezone="UTC", now=NOW)


def one(*objects: Any, task: str | None = "ops.run") -> Converted:
    (converted,) = read(*objects, task=task)
    return converted


def body(converted: Converted) -> dict[str, Any]:
    assert converted.refused is None
    return dict(converted.body or {})


def test_a_shell_command_becomes_a_job_of_the_task_that_was_named() -> None:
    converted = one(manifest())
    assert body(converted) == {
        "job_id": "backup",
        "task": "ops.run",
        "kwargs": {"command": SHELL[2], "stdin": ""},
        "schedule": {
            "kind": "cron", "expr": "30 2 * * 1-5", "timezone": "Europe/Berlin", "dst_gap": "skip", "dst_fold": "both",
        },
        "overlap": "allow",
    }  # fmt: skip
    assert converted.differences[0] == "its image shop:1 is not used: the worker has to have the command"


def test_a_command_of_words_is_quoted_for_the_shell_and_filled_in_as_kubernetes_does() -> None:
    words = ["python", "-m", "shop.report", "--to=$(TO)", "$$(TO)", "$(date)"]
    env = [{"name": "TO", "value": "a b"}]
    converted = one(manifest(container={"command": words[:2], "args": words[2:], "env": env}))
    command = "python -m shop.report '--to=a b' '$(TO)' '$(date)'"
    assert body(converted)["kwargs"] == {"command": command, "stdin": "", "env": {"TO": "a b"}}


def test_policies_become_the_jobs() -> None:
    spec = {"concurrencyPolicy": "Replace", "startingDeadlineSeconds": 90, "successfulJobsHistoryLimit": 3}
    made = body(one(manifest(spec=spec, job={"backoffLimit": 2, "activeDeadlineSeconds": 600})))
    assert made["overlap"] == "cancel_running"
    assert made["misfire"] == {"policy": "skip", "grace": "90s"}
    assert made["retry"] == {"max_attempts": 3, "initial": "10s", "factor": 2, "max": "6m", "jitter": False}
    assert made["timeout"] == "600s"
    assert body(one(manifest(spec={"concurrencyPolicy": "Forbid"})))["overlap"] == "skip"
    assert body(one(manifest(job={"backoffLimit": None})))["retry"]["max_attempts"] == 7


def test_lists_and_several_documents_are_read_and_what_is_no_cronjob_is_left_out() -> None:
    listed = {"kind": "List", "apiVersion": "v1", "items": [manifest(), manifest(metadata={"name": "backup"})]}
    config = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}}
    suspended = manifest(metadata={"name": "off", "namespace": "shop"}, spec={"suspend": True})
    first, second, none, off = read(listed, config, suspended)
    assert (body(first)["job_id"], body(second)["job_id"]) == ("backup", "backup-2")
    assert none.left_out == "it is a ConfigMap, no CronJob"
    assert (off.name, off.left_out) == ("shop/off", "it is suspended there")


def test_what_a_worker_does_not_take_over_is_named() -> None:
    container = {"resources": {"limits": {"cpu": 1}}, "envFrom": [{"secretRef": {"name": "s"}}]}
    container["env"] = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "t"}}}]
    made = manifest(container=container, pod={"serviceAccountName": "x", "volumes": [{"name": "v"}]})
    del made["spec"]["timeZone"]
    differences = one(made).differences
    assert differences[0].startswith("it names no timeZone")
    assert "Kubernetes fills in the environment of envFrom, TOKEN: set it on the worker" in differences
    assert "its container's resources: not carried over, see to it where the worker runs" in differences
    assert "its pod's serviceAccountName, volumes: not carried over, see to it where the worker runs" in differences


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"schedule": "0 0 * * 7"}, "day of week '7' is not understood: give 0-6"),
        ({"schedule": "0 0 31 2 *"}, "never happens"),
        ({"schedule": "0 0 1-L * *"}, "not understood"),
        ({"schedule": "0 0 * * * 0"}, "has 6 fields"),
        ({"schedule": "@reboot"}, "has 1 fields"),
        ({"schedule": "@every soon"}, "names no duration"),
        ({"spec": {"timeZone": "Mars/Base"}}, "timeZone 'Mars/Base'"),
        ({"spec": {"concurrencyPolicy": "Maybe"}}, "concurrencyPolicy 'Maybe'"),
        ({"spec": {"concurrencyPolicy": ["Allow"]}}, "no CronJob that Kubernetes would take"),
        ({"container": {"env": 5}}, "no CronJob that Kubernetes would take"),
        ({"spec": {"startingDeadlineSeconds": "soon"}}, "startingDeadlineSeconds is 'soon'"),
        ({"job": {"parallelism": 3}}, "parallelism is 3"),
        ({"pod": {"containers": []}}, "0 containers"),
        ({"pod": {"initContainers": [{"name": "i"}]}}, "initContainers"),
        ({"container": {"command": None}}, "its command is that of its image shop:1"),
        ({"container": {"command": "backup"}}, "no lists of texts"),
        (
            {"container": {"command": ["x", "$(T)"], "env": [{"name": "T", "valueFrom": {"fieldRef": {}}}]}},
            r"$(T) in its command is filled in from a secret",
        ),
        ({"apiVersion": "batch/v9"}, "apiVersion 'batch/v9'"),
        ({"spec": {"jobTemplate": None}}, "it has no jobTemplate"),
    ],
)
def test_what_cannot_be_moved_is_refused_by_its_name(parts: dict[str, Any], why: str) -> None:
    assert why in str(one(manifest(**parts)).refused)


def test_a_command_without_a_task_that_runs_it_is_refused() -> None:
    assert "by --task" in str(one(manifest(), task=None).refused)


@pytest.mark.parametrize("text", ["", "kind: Deployment\n", "a: [", "- 1\n"])
def test_a_file_without_a_cronjob_is_an_error(text: str) -> None:
    with pytest.raises(BadValue, match=r"holds no CronJob|is not YAML"):
        read_kubernetes(text, task="ops.run", timezone="UTC", now=NOW)


def test_what_is_exported_comes_again_the_same() -> None:
    rules = {"dst_gap": "skip", "dst_fold": "both"}
    cron = {"kind": "cron", "expr": "30 2 * * 1-5", "timezone": "Europe/Berlin", **rules}
    jobs = [
        {"job_id": "report", "task": "shop.report", "schedule": cron, "queue": "slow", "args": [1],
         "kwargs": {"a": "b"}, "overlap": "allow", "start_within": "90s"},
        {"job_id": "Backup.all", "task": "ops.run", "schedule": {**cron, "expr": "*/7 3 1,15 * *"}, "queue": "default",
         "kwargs": {"command": "backup --all", "stdin": "", "env": {"A": "1"}}, "overlap": "cancel_running",
         "misfire": {"policy": "skip", "grace": "60s", "max_catch_up": 100}, "timeout": "10m"},
    ]  # fmt: skip
    text, refused = export_kubernetes(jobs_of(jobs, NOW), Cluster("shop:1", "shop:app"), NOW, nearest=False)
    assert refused == []
    found = read_kubernetes(text, task="ops.run", timezone="UTC", now=NOW)
    again = [read_job({"queue": "default", **body(each)}, created_at=NOW)[0] for each in found]
    for job, wanted in zip(again, jobs_of(jobs, NOW), strict=True):
        same = ("job_id", "task", "args", "queue", "overlap", "misfire", "timeout", "start_within")
        assert {name: getattr(job, name) for name in same} == {name: getattr(wanted, name) for name in same}
        assert {k: v for k, v in job.kwargs.items() if v} == {k: v for k, v in wanted.kwargs.items() if v}
        times = [occurrences(each.schedule, NOW, NOW + 400 * DAY) for each in (job, wanted)]
        assert times[0] == times[1]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (["celery", "call", "t", "--eta", "2027-01-01"], "--eta of celery call has no equal"),
        (["celery", "call", "t", "--args", "{}"], "is no list"),
        (["celery", "-A", "app", "call", "t", "-k", "["], "is no JSON"),
        (["celery", "call", "t", "--queue"], "not understood"),
    ],
)
def test_a_celery_call_that_has_no_equal_is_refused(call: list[str], why: str) -> None:
    assert why in str(one(manifest(container={"command": call})).refused)


def test_an_interval_is_named_as_one() -> None:
    converted = one(manifest("@every 1h30m10.5s"))
    assert body(converted)["schedule"] == {"kind": "interval", "every": "5410s", "timezone": "Europe/Berlin"}
    assert "counts from its last start" in converted.differences[0]


# The dialect. The oracle says what the library's documents and source say: each minute whose wall time matches.


def _values(text: str, low: int, high: int, names: str) -> tuple[set[int], bool]:
    found, starred = set(), False
    for item in text.split(","):
        span, _, step = item.partition("/")
        for number, name in enumerate(names.split()):
            span = span.replace(name, str(number + low))
        first, _, last = span.partition("-")
        begin, end = (low, high) if first in "*?" else (int(first), int(last or (high if step else first)))
        found |= set(range(begin, end + 1, int(step or 1)))
        starred = starred or (first in "*?" and step in ("", "1"))
    return found, starred


def theirs(line: str, zone: str, start: datetime, end: datetime) -> list[int]:
    minute, hour, day, month, weekday = line.split()
    minutes, hours = _values(minute, 0, 59, "")[0], _values(hour, 0, 23, "")[0]
    days, any_day = _values(day, 1, 31, "")
    months = _values(month, 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec")[0]
    weekdays, any_weekday = _values(weekday, 0, 6, "sun mon tue wed thu fri sat")
    found, at, where = [], start, ZoneInfo(zone)
    while at < end:
        wall = at.astimezone(where)
        both = (wall.day in days, wall.isoweekday() % 7 in weekdays)
        on_day = all(both) if any_day or any_weekday else any(both)
        if wall.minute in minutes and wall.hour in hours and wall.month in months and on_day:
            found.append(from_datetime(at))
        at += timedelta(minutes=1)
    return found


@pytest.mark.parametrize(
    ("zone", "change"),
    [("Europe/Berlin", "2027-03-28"), ("America/New_York", "2026-11-01"), ("Africa/Cairo", "2027-04-30")],
)
def test_lines_fire_when_the_controllers_library_does_at_changes_of_the_clocks(zone: str, change: str) -> None:
    begin = datetime.fromisoformat(change).replace(tzinfo=UTC) - timedelta(hours=20)
    for line in ("30 * * * *", "*/15 1-3 * * *", "30 2 * * *", "0 0,1,2,3 * * *", "5/20 0/6 * * *", "59 23 * * *"):
        assert _ours(line, zone, begin, begin + timedelta(hours=44)) == theirs(
            line, zone, begin, begin + timedelta(hours=44)
        ), line


@pytest.mark.parametrize(
    "line",
    [
        "0 0 */2 * mon",
        "0 0 1-31 * tue",
        "0 0 ? * 1-5",
        "0 0 13 * fri",
        "0 0 *,5 * sun",
        "0 0 */1 jan,JUL sat",
        "0 0 5/9 * 2/3",
    ],
)
def test_the_day_fields_are_joined_as_the_controllers_library_joins_them(line: str) -> None:
    begin = datetime(2027, 1, 1, tzinfo=UTC)
    days = [begin + timedelta(days=number) for number in range(366)]
    wanted = [at for day in days for at in theirs(line.lower(), "UTC", day, day + timedelta(minutes=1))]
    assert _ours(line, "UTC", begin, days[-1] + timedelta(minutes=1)) == wanted


def test_random_days_are_joined_alike() -> None:
    pick = random.Random(17)
    begin = datetime(2027, 1, 1, tzinfo=UTC)
    for _ in range(25):
        day = pick.choice(["*", "*/3", "1-10", "31", "?", "7/5", "1-31/2", "*/1", "15,*/9"])
        weekday = pick.choice(["*", "*/2", "0-6", "mon-fri", "?", "3/2", "6", "1,*"])
        line = f"0 0 {day} {pick.choice(['*', '2', '*/5'])} {weekday}"
        days = [begin + timedelta(days=number) for number in range(120)]
        wanted = [at for each in days for at in theirs(line, "UTC", each, each + timedelta(minutes=1))]
        assert _ours(line, "UTC", begin, days[-1] + timedelta(minutes=1)) == wanted, line


def _ours(line: str, zone: str, start: datetime, end: datetime) -> list[int]:
    try:
        spec, _ = kubernetes_spec(line, zone)
    except CannotConvert as exc:
        raise AssertionError(line) from exc
    schedule = parse_schedule(spec, job_id="", created_at=NOW).schedule
    return occurrences(schedule, from_datetime(start), from_datetime(end))
