"""`python -m itinerary export-beat`: an app's beat schedule as JSON, from the app's own environment."""

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab

from itinerary.apps.beat_schedule import differing, export_beat
from itinerary.apps.loading import load_app
from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import parse_instant
from scheduler_service.migrating.beat_export import parse_export
from scheduler_service.migrating.beat_moving import app_of_zone, move_entries
from tests.support.processes import CHECKOUT, project_env

NOW = parse_instant("2026-11-27T10:00:00Z")


def shop(**entries: Any) -> Celery:
    app = Celery("shop", broker="redis://:secret@127.0.0.1:1/0", set_as_current=False)
    app.conf.beat_schedule = {name: {"task": "shop.report", **entry} for name, entry in entries.items()}
    return app


def body(**entries: Any) -> dict[str, Any]:
    return export_beat(shop(**entries), "shop:app")


def differences(export: dict[str, Any]) -> dict[str, str]:
    found = parse_export(json.dumps(export), "a test")
    moved = move_entries(found.entries, found.app, NOW, clocks=False)
    return {each.entry.name: "\n".join([*each.converted.differences, str(each.converted.refused)]) for each in moved}


def test_the_rate_limits_of_tasks_travel_with_the_export() -> None:
    app = shop(a={"task": "shop.limited", "schedule": 60}, b={"task": "shop.free", "schedule": 60})

    def nothing() -> None: ...

    app.task(name="shop.limited", shared=False, rate_limit="10/m")(nothing)
    app.task(name="shop.free", shared=False)(nothing)
    export = export_beat(app, "shop:app")
    assert export["rate_limits"] == {"shop.limited": "10/m"}
    told = differences(export)
    assert "itinerary limits set shop.limited --rate 10/1m" in told["a"]
    assert "rate_limit" not in told["b"]
    del export["rate_limits"]  # as a release before printed it
    assert "rate_limit" not in differences(export)["a"]


@pytest.mark.slow
def test_what_the_command_prints_is_what_the_app_says(tmp_path: Path) -> None:
    noisy = "print('noise at import')\nfrom tests.migrating.beat_app import app\n"
    (tmp_path / "noisy.py").write_text(noisy)
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "itinerary", "export-beat", "noisy:app"],
        env=project_env(PYTHONPATH=CHECKOUT), cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "noise at import\n")
    printed = json.loads(ended.stdout)
    own = export_beat(load_app("tests.migrating.beat_app:app"), "noisy:app")
    assert [entry.pop("again") for entry in printed["entries"]] == [{}] * len(own["entries"])
    for entry in (*printed["entries"], *own["entries"]):
        if entry["name"] == "not JSON":
            entry.pop("refused")  # it names the address of an object
    assert {**printed, "tasks": {}} == {**own, "tasks": {}}
    assert printed["tasks"].items() <= own["tasks"].items()  # other tests register tasks for every app
    assert printed["tasks"]["shop.mail"] == "mail"


@pytest.mark.slow
def test_what_is_random_at_import_is_found_by_loading_the_app_twice(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import os\nfrom celery import Celery\nfrom celery.schedules import crontab\napp = Celery('shop')\n"
        "app.conf.beat_schedule = {'a': {'task': 't', 'schedule': crontab(minute=os.getpid() % 60, hour=3)}}\n"
        "app.conf.beat_schedule[f'of {os.getpid()}'] = {'task': 't', 'schedule': 60}\n"
    )
    command = [sys.executable, "-P", "-m", "itinerary", "export-beat"]
    within = {"env": project_env(PYTHONPATH=CHECKOUT), "cwd": tmp_path, "text": True, "timeout": 60}
    once = json.loads(subprocess.check_output([*command, "--once", "shop:app"], **within))
    assert all("again" not in entry for entry in once["entries"])
    twice = json.loads(subprocess.check_output([*command, "shop:app"], **within))
    first, named = twice["entries"]
    assert named["again"] is None
    assert set(first["again"]) == {"schedule"}
    assert first["again"]["schedule"]["minute"] != first["schedule"]["minute"]


def test_a_random_entry_is_named_and_a_stable_one_proposed() -> None:
    first = body(a={"schedule": crontab(minute=57, hour=13, day_of_week="1,2")}, b={"schedule": 60}, c={"schedule": 60})
    second = body(a={"schedule": crontab(minute=4, hour=13, day_of_week="1,2")}, b={"schedule": 90, "args": (1,)})
    differing(first, second)
    told = differences(first)
    assert "another each time the app is loaded (crontab 57 13 * * 1,2, then crontab 4 13 * * 1,2)" in told["a"]
    assert "`H 13 * * 1,2`" in told["a"]
    assert "(every 60 s, then every 90 s)" in told["b"]
    assert "`balanced`" in told["b"]
    assert "its args differ each time" in told["b"]
    assert "not there when the app is loaded again" in told["c"]
    differing(second, second)
    assert "each time" not in str(differences(second))


def test_the_export_holds_no_password_and_values_that_json_lacks_as_texts() -> None:
    found = body(a={"schedule": 60, "options": {"link": object(), "queue": "slow", "priority": 3, "eta": None}})
    assert "secret" not in json.dumps(found)
    (entry,) = found["entries"]
    assert entry["queue"] == "slow"
    assert entry["options"]["priority"] == 3
    assert entry["options"]["link"].startswith("<object")
    assert "eta" not in entry["options"]


def test_a_zone_without_a_name_refuses_each_entry() -> None:
    found = {**body(a={"schedule": 60}), "timezone": "<LocalTimezone: UTC+01>"}
    assert "'<LocalTimezone: UTC+01>' has no IANA name: set app.conf.timezone" in differences(found)["a"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"format": "itinerary.beat/2"}, "this service reads itinerary.beat/1"),
        ({"entries": 3}, "TypeError"),
        ({"entries": [{"name": "a"}]}, "KeyError"),
    ],
)
def test_anything_else_is_refused_with_the_command_that_prints_it(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(BadValue, match="python -m itinerary export-beat MODULE:APP") as raised:
        parse_export(json.dumps({**body(), **changed}), "shop.json")
    assert why in str(raised.value)
    with pytest.raises(BadValue, match="--from-json: 'shop"):
        parse_export("no JSON", "shop.json")


def test_a_project_of_django_is_read_without_a_word_about_django(monkeypatch: pytest.MonkeyPatch) -> None:
    given = json.dumps(body())
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "shop.settings")  # as `manage.py itinerary import-beat` passes it on
    monkeypatch.setitem(sys.modules, "django", None)  # the service's environment has none
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_export(given, "shop.json")
        app_of_zone.__wrapped__("Europe/Berlin")
