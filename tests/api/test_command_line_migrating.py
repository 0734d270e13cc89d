"""`import-beat`, `import-crontab` and `shadow` against a real API process."""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.migrating.django_rows import fill
from tests.support.command_line import Itinerary

pytestmark = pytest.mark.slow  # whole processes, or real servers for long

BEAT_APP = "tests.migrating.beat_app:app"
ELSEWHERE = "tests.migrating.elsewhere_app:app"


def jobs_of(itinerary: Itinerary, source: str) -> list[str]:
    page = json.loads(itinerary.done("jobs", "list", "--source", source, "--json"))
    return [job["job_id"] for job in page["items"]]


@pytest.mark.slow
def test_a_beat_schedule_is_shown_first_and_moved_in_when_asked(itinerary: Itinerary) -> None:
    shown = itinerary.done("jobs", "import-beat", BEAT_APP)
    assert "+ every-quarter  from every quarter" in shown
    assert "x half a second  cannot be moved" in shown
    assert "nothing was changed" in shown
    assert jobs_of(itinerary, f"beat:{BEAT_APP}") == []
    told = json.loads(itinerary.done("jobs", "import-beat", BEAT_APP, "--json"))
    assert all(len(each["next_runs"]) == 3 for each in told["items"] if each["job"])
    partly = itinerary("jobs", "import-beat", BEAT_APP, "--apply")
    assert partly.returncode == 1
    assert "--partly" in partly.stderr
    assert itinerary.done("jobs", "import-beat", BEAT_APP, "--apply", "--partly").endswith("applied\n")
    assert "every-quarter" in jobs_of(itinerary, f"beat:{BEAT_APP}")
    again = itinerary.done("jobs", "import-beat", BEAT_APP, "--apply", "--partly")
    assert "nothing to change" in again
    dry = itinerary.done("jobs", "import-beat", BEAT_APP)
    assert "= every-quarter  from every quarter" in dry
    assert "+ " not in dry.replace(" + k x", "")
    assert "nothing to change" in dry
    assert json.loads(itinerary.done("jobs", "import-beat", BEAT_APP, "--json"))["plan"]["added"] == []


@pytest.mark.slow
def test_the_app_s_own_environment_says_the_same_in_json(itinerary: Itinerary) -> None:
    printed = subprocess.check_output([sys.executable, "-m", "itinerary", "export-beat", BEAT_APP], env=itinerary.env)
    words = ("jobs", "import-beat", "--json")
    direct = json.loads(itinerary.done(*words, BEAT_APP, "--python", sys.executable))
    piped = itinerary(*words, "--from-json", "-", stdin=printed.decode())
    assert (piped.returncode, piped.stderr) == (0, "")
    given = json.loads(piped.stdout)
    for told in (direct, given):
        for item in told["items"]:
            item.pop("next_runs")
            item.pop("refused")  # one of them names the address of an object
    assert given == direct
    assert given["source"] == f"beat:{BEAT_APP}"


@pytest.mark.slow
def test_without_an_api_the_dry_run_says_that_it_compared_nothing(itinerary: Itinerary) -> None:
    alone = itinerary("jobs", "import-beat", BEAT_APP, "--json", ITINERARY_API_URL="http://127.0.0.1:1")
    assert alone.returncode == 0
    assert json.loads(alone.stdout)["plan"] is None
    assert "not compared with what is stored" in alone.stderr


@pytest.mark.slow
def test_django_celery_beats_tables_are_moved_in_and_what_is_sent_no_more_stays_out(
    itinerary: Itinerary, tmp_path: Path
) -> None:
    pytest.importorskip("django_celery_beat", reason="django-celery-beat is not installed: install the group `test`")
    url = fill(f"sqlite:///{tmp_path / 'db.sqlite3'}")
    words = ("jobs", "import-beat", "--from-database", url)
    shown = itinerary.done(*words)
    assert "+ sun  from sun" in shown
    assert "- off  left out: it is disabled there" in shown
    assert "without MODULE:APP nothing is known" in shown
    assert "nothing was changed" in shown
    itinerary.done(*words, "--apply", "--partly")
    owned = jobs_of(itinerary, f"django-celery-beat:{tmp_path / 'db.sqlite3'}")
    assert {"nightly", "quarter", "ten", "once", "sun"} <= set(owned)
    assert not {"off", "expired", "sent", "at-old-year"} & set(owned)
    assert "nothing to change" in itinerary.done(*words)
    shadow = itinerary.done("shadow", "--from-database", url, "--hours", "48", "--from", "2027-01-10T00:00:00Z")
    assert "= nightly  2 by beat, 2 here" in shadow
    assert "no time differs" in shadow


@pytest.mark.slow
def test_redbeats_keys_are_moved_in(itinerary: Itinerary, redis_url: str) -> None:
    held = {"name": "by hand", "task": "shop.report", "args": [1], "enabled": True}
    timed = {"__type__": "crontab", "minute": "5", "hour": 3}
    client = redis.Redis.from_url(redis_url)
    client.hset("mine:by hand", "definition", json.dumps({**held, "schedule": timed}))
    client.close()
    words = (
        "jobs",
        "import-beat",
        "--from-redbeat",
        redis_url,
        "--redbeat-prefix",
        "mine:",
        "--timezone",
        "Asia/Tokyo",
    )
    assert "At 03:05 (Asia/Tokyo)" in itinerary.done(*words)
    itinerary.done(*words, "--apply", "--source", "ours")
    assert jobs_of(itinerary, "ours") == ["by-hand"]


@pytest.mark.slow
def test_a_crontab_is_shown_first_and_moved_in_when_asked(itinerary: Itinerary, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("CRON_TZ=Asia/Tokyo\n# Backup\n30 2 * * * backup%stdin\n")
    words = ("jobs", "import-crontab", str(file), "--task", "ops.run")
    shown = itinerary.done(*words)
    assert "+ backup  from line 3" in shown
    assert "At 02:30 (Asia/Tokyo)" in shown
    assert shown.count("(in ") >= 3
    owner = f"crontab:{socket.gethostname()}:{file}"
    assert jobs_of(itinerary, owner) == []
    assert "= line 3  2 by crontab, 2 here\nno time differs\n" in itinerary.done("shadow", "--from-crontab", str(file))
    itinerary.done(*words, "--apply")
    assert jobs_of(itinerary, owner) == ["backup"]
    of_another = tmp_path / "other" / "crontab"
    of_another.parent.mkdir()
    of_another.write_text("@daily report\n")
    itinerary.done("jobs", "import-crontab", str(of_another), "--task", "ops.run", "--apply")
    assert jobs_of(itinerary, owner) == ["backup"]
    piped = itinerary("jobs", "import-crontab", "-", "--task", "ops.run", stdin="@reboot x\n")
    assert (piped.returncode, "@reboot names no time" in piped.stdout) == (0, True)


@pytest.mark.slow
def test_cronjobs_and_timers_are_moved_in(itinerary: Itinerary, tmp_path: Path) -> None:
    manifests = tmp_path / "cronjobs.yaml"
    pod = {"containers": [{"name": "c", "image": "i", "command": ["backup"]}], "restartPolicy": "Never"}
    spec = {"schedule": "5 4 * * *", "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}}
    held = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "backup-pod"}, "spec": spec}
    manifests.write_text(json.dumps(held))
    (tmp_path / "weekly.timer").write_text("[Timer]\nOnCalendar=weekly\n")
    (tmp_path / "weekly.service").write_text("[Service]\nExecStart=/bin/backup\n")
    (tmp_path / "boot.timer").write_text("[Timer]\nOnBootSec=5min\n")
    cluster = ("jobs", "import-kubernetes", str(manifests), "--task", "ops.run")
    machine = ("jobs", "import-systemd", str(tmp_path), "--task", "ops.run", "--timezone", "Europe/Berlin")
    assert "differs   it names no timeZone" in itinerary.done(*cluster)
    assert "x boot.timer  cannot be moved: OnBootSec=5min counts from the machine's boot" in itinerary.done(*machine)
    assert "= backup-pod  2 by kubernetes, 2 here\n" in itinerary.done("shadow", "--from-kubernetes", str(manifests))
    if shutil.which("systemd-analyze"):
        seen = itinerary.done(
            "shadow", "--from-systemd", str(tmp_path), "--hours", "168", "--timezone", "Europe/Berlin"
        )
        assert "x boot.timer  cannot be compared: OnBootSec=5min" in seen
        assert "= weekly.timer  1 by systemd, 1 here\nno time differs" in seen
    itinerary.done(*cluster, "--apply")
    assert itinerary(*machine, "--apply").returncode == 1
    itinerary.done(*machine, "--apply", "--partly")
    assert jobs_of(itinerary, f"kubernetes:{socket.gethostname()}:{manifests}") == ["backup-pod"]
    assert jobs_of(itinerary, f"systemd:{socket.gethostname()}:{tmp_path}") == ["weekly"]
    for words in (cluster, machine):
        assert "nothing to change" in itinerary.done(*words)


@pytest.mark.slow
def test_jobs_of_apscheduler_and_rq_scheduler_are_moved_in(
    itinerary: Itinerary, tmp_path: Path, redis_url: str
) -> None:
    place = "tests.migrating.apscheduler_app:scheduler"
    words = ("jobs", "import-apscheduler", place, "--task", "ops.call")
    shown = itinerary.done(*words)
    assert "+ aps-nightly  from aps-nightly" in shown
    assert "x either  cannot be moved: its trigger or[cron[" in shown
    assert itinerary.done(*words, "--apply", "--partly").endswith("applied\n")
    assert {"aps-nightly", "monday", "every-25"} <= set(jobs_of(itinerary, f"apscheduler:{place}"))
    assert "nothing to change" in itinerary.done(*words)
    shadow = itinerary.done("shadow", "--from-apscheduler", place, "--from", "2031-04-30T00:00:00Z")
    assert "= aps-once  1 by apscheduler, 1 here\n" in shadow
    assert "- paused  left out: it is paused there" in shadow
    assert shadow.endswith("no time differs\n")
    command = [sys.executable, "-m", "itinerary", "export-apscheduler", place]
    file = tmp_path / "jobs.json"
    file.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    assert "nothing to change" in itinerary.done("jobs", "import-apscheduler", "--from-json", str(file), *words[3:])
    client = redis.Redis.from_url(redis_url)
    client.hset("rq:job:hourly", mapping={"data": b'["shop.report", null, [1], {}]', "meta": b'{"interval": 3600}'})
    client.zadd("rq:scheduler:scheduled_jobs", {"hourly": 1_800_000_000})
    client.close()
    of_rq = ("jobs", "import-rq", redis_url, "--timezone", "UTC")
    assert "+ hourly  from hourly" in itinerary.done(*of_rq)
    shadow = ("shadow", *of_rq[2:], "--from", "2027-01-15T08:00:00Z")
    assert "= hourly  47 by rq, 47 here\n" in itinerary.done(shadow[0], "--from-rq", *shadow[1:])
    itinerary.done(*of_rq, "--apply")
    assert "nothing to change" in itinerary.done(*of_rq)
    for wrong in (("jobs", "import-apscheduler"), ("jobs", "import-apscheduler", "tests.migrating.beat_app:app")):
        assert itinerary(*wrong).returncode == 2


@pytest.mark.slow
def test_the_shadow_lists_what_differs_and_why(itinerary: Itinerary) -> None:
    words = ("shadow", BEAT_APP, "--from", "2027-10-31T00:00:00+02:00", "--hours", "6")
    text = itinerary.done(*words)
    assert "~ every quarter  19 by beat, 23 here" in text
    assert "twice: this is time 2" in text
    assert "= at sunset  0 by beat, 0 here" in text
    seen = {each["name"]: each for each in json.loads(itinerary.done(*words, "--json"))["items"]}
    quarter = seen["every quarter"]
    assert [each["only"] for each in quarter["differences"]] == ["itinerary"] * 4
    assert quarter["differences"][0]["at"] == "2027-10-31T01:00:00Z"
    assert seen["by code"]["differences"] == []
    assert seen["every 30 s"]["beat"] == seen["every 30 s"]["itinerary"]


@pytest.mark.slow
def test_jobs_are_exported_for_other_schedulers_and_what_they_cannot_say_is_named(
    itinerary: Itinerary, tmp_path: Path
) -> None:
    jobs = [
        {"job_id": "exact", "task": "t", "schedule": {"kind": "cron", "expr": "5 4 * * *"}, "overlap": "allow"},
        {"job_id": "skips", "task": "t", "schedule": {"kind": "cron", "expr": "5 4 * * *"}},
    ]
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"source": "leaving", "jobs": jobs}))
    itinerary.done("jobs", "apply", str(file), "--yes")
    words = ("jobs", "export", "--source", "leaving", "--format")
    beat = itinerary(*words, "beat")
    assert beat.returncode == 1
    assert "'exact': {" in beat.stdout
    assert "'skips': {" not in beat.stdout
    assert "itinerary: skips is not written: overlap skip" in beat.stderr
    assert "--nearest" in beat.stderr
    near = itinerary.done(*words, "beat", "--nearest", "-o", str(tmp_path / "beat.py"))
    assert near == ""
    assert "# differs: overlap skip" in (tmp_path / "beat.py").read_text()
    pods = itinerary.done(*words, "kubernetes", "--image", "shop:1", "--celery-app", "shop:app", "--nearest")
    assert pods.count("kind: CronJob") == 2
    units = itinerary(*words, "systemd", "--celery-app", "shop:app", "--output", str(tmp_path))
    assert (units.returncode, units.stdout) == (1, "")
    assert sorted(path.name for path in tmp_path.glob("*.*r*") if path.suffix in (".timer", ".service")) == [
        "exact.service", "exact.timer",
    ]  # fmt: skip
    assert "name a folder that exists for the units" in itinerary(*words, "systemd", "-o", str(file)).stderr
    cron = itinerary(*words, "crontab")
    assert (cron.returncode, cron.stderr.count("is given no command alone")) == (1, 2)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("jobs", "import-beat", "no_such_module:app"), 2, "there is no module no_such_module in"),
        (("shadow", "no_such_module:app"), 2, "run there: python -m itinerary export-beat no_such_module:app"),
        (("jobs", "import-beat", BEAT_APP, "--from-json", "-"), 2, "--from-json names the app"),
        (("jobs", "import-beat", "--from-json", "/nowhere"), 2, "--from-json: '/nowhere'"),
        (("jobs", "import-beat", BEAT_APP, "--python", "/nowhere"), 2, "--python: '/nowhere'"),
        (("jobs", "import-crontab", "/nowhere", "--task", "t"), 2, "/nowhere"),
        (("jobs", "import-crontab", "-"), 2, "--task"),
        (("shadow", BEAT_APP, "--hours", "0"), 2, "--hours"),
        (("jobs", "export", "--format", "kubernetes"), 2, "--image"),
        (("jobs", "import-beat"), 2, "name your Celery app, or --from-json FILE"),
        (("shadow",), 2, "or --from-redbeat URL, or another scheduler, such as --from-crontab FILE"),
        (("jobs", "import-beat", "--from-database", "mysql://u:p@h/d"), 2, "PostgreSQL and SQLite"),
        (("jobs", "import-beat", "--from-database", "sqlite:////x", "--from-redbeat", "redis://h"), 2, "one source"),
        (("shadow", BEAT_APP, "--from-redbeat", "redis://h", "--timezone", "UTC"), 2, "the app names its zone"),
        (("shadow", BEAT_APP, "--from-crontab", "-"), 2, "leave out MODULE:APP, or --from-crontab"),
        (("shadow", "--from-rq", "redis://h", "--from-systemd", "/x"), 2, "leave out --from-rq, or --from-systemd"),
        (("shadow", ELSEWHERE), 1, f"shadow {ELSEWHERE} --from-redbeat"),
        (("shadow", ELSEWHERE, "--python", sys.executable), 1, f"{ELSEWHERE} --python {sys.executable} --from-redbeat"),
    ],
)
def test_a_wrong_call_is_one_line(itinerary: Itinerary, words: tuple[str, ...], status: int, said: str) -> None:
    ended = itinerary(*words)
    assert ended.returncode == status
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_dry_run_shows_what_is_new_changed_and_the_same(itinerary: Itinerary, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    words = ("jobs", "import-crontab", str(file), "--task", "ops.run", "--source", "dry-run")
    file.write_text("1 2 * * * kept\n3 4 * * * moved\n")
    itinerary.done(*words, "--apply")
    file.write_text("1 2 * * * kept\n9 4 * * * moved\n5 6 * * * another\n")
    shown = itinerary.done(*words)
    assert "= kept  from line 1" in shown
    assert '~ moved  from line 2\n    schedule.expr: "3 4 * * *" -> "9 4 * * *"\n    task ' in shown
    assert "+ another  from line 3" in shown
    assert shown.count("\n+ ") == 1
    assert "dry-run: 1 added, 1 changed, 1 as they are\nnothing was changed" in shown
