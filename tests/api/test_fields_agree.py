"""The fields of a job and the kinds of schedule are the same everywhere; a half-added one fails here.

Whoever adds a field or a kind adds it to FULL or SPECS and then to each place that a test names.
"""

import dataclasses
import inspect
import re
from typing import Any, get_args

import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel

from itinerary.jobs import schedule as decorators
from itinerary.jobs.fields import JobFields, SolarEvent
from itinerary.protocol.instants import parse_instant
from itinerary.protocol.limits import lane_of
from itinerary.protocol.run_fields import RUN_FIELDS
from scheduler_service.api.openapi import answers, schemas
from scheduler_service.api.pages import job_fields
from scheduler_service.cli import job_options
from scheduler_service.cli import jobs as cli_jobs
from scheduler_service.core.contract.job_json import DEFAULTS, FIELDS, READ_ONLY, definition_of, job_body, read_job
from scheduler_service.core.contract.job_table import GROUPS, JOB_FIELDS
from scheduler_service.core.contract.run_requests import read_trigger
from scheduler_service.core.leader.planning import new_occurrence
from scheduler_service.core.model import Job, NewRun
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.kinds import OwnSchedule
from scheduler_service.core.schedules.schedule import SPEC_FIELDS, canonical_spec, zone_of
from scheduler_service.core.schedules.solar_times import EVENTS
from scheduler_service.core.schedules.specs import KINDS
from scheduler_service.jobs_as_code import Schedule
from scheduler_service.jobs_as_code.writing import short_body
from tests.support.forms import as_shown, submit
from tests.support.processes import MANUAL, REPOSITORY

AT = parse_instant("2026-12-01T00:00:00Z")
# Every field, each with another value than its default.
FULL: dict[str, Any] = {
    "job_id": "full",
    "title": 'A "title" <b>',
    "task": "shop.report",
    "args": [1, "two"],
    "kwargs": {"three": {"four": [5, None]}},
    "headers": {"tenant": "north", "trace": {"five": 6}},
    "queue": "slow",
    "priority": 3,
    "schedule": {"kind": "once", "at": "2031-03-04T05:06:07Z"},
    "start_at": "2030-01-01T00:00:00Z",
    "end_at": "2032-01-01T00:00:00Z",
    "jitter": "10s",
    "misfire": {"policy": "fire_all", "grace": "1m", "max_catch_up": 7},
    "overlap": "queue_all",
    "retry": {"max_attempts": 3, "initial": "2s", "factor": 1.5, "max": "20m", "jitter": False},
    "timeout": "5m",
    "start_within": "2h",
    "must_end_within": "3h",
    "limits": ["api", {"name": "tenant", "key": {"from": "kwargs.three.four.0"}}],
    "fair_key": {"from": "args.1"},
    "calendars": {"exclude": ["holidays"], "only": ["season"], "when_excluded": "skip", "workdays": None},
    "ping": {"url": "https://ping.example.org/1", "on": ["start", "failure"], "style": "healthchecks"},
    "keep_logs": "all",
    "tags": ["a, b", "c"],
    "description": "two\nlines & more",
}
# Every kind, and every field that a kind may hold: together with another value than its default.
SPECS: list[dict[str, Any]] = [
    {
        "kind": "cron", "expr": "5 2 * * 1", "timezone": "Europe/Berlin", "day_match": "and", "dst_gap": "skip",
        "dst_fold": "last",
    },
    {"kind": "cron", "expr": "0 15 10 ? * 6L 2027-2030", "dialect": "quartz", "timezone": "Europe/Berlin"},
    {"kind": "hourly", "minute": 17, "timezone": "Asia/Kolkata"},
    {
        "kind": "interval", "every": "25m", "offset": "2m", "anchor": "2030-01-01T00:00:00Z", "balanced": False,
        "pinned": False, "timezone": "Europe/Berlin",
    },
    {
        "kind": "interval", "every": "1h", "balanced": True, "pinned": True,
        "timezone": "Europe/Berlin",
    },
    {
        "kind": "calendar", "every": 2, "unit": "week", "at": ["05:30", "17:00"], "days": [],
        "weekdays": ["mon", "fri"], "start": "2026-12-07", "timezone": "Europe/Berlin",
    },
    {
        "kind": "calendar", "every": 3, "unit": "month", "at": ["05:30:15"], "days": [1, 15, -1],
        "weekdays": [], "start": "2026-12-07", "timezone": "Europe/Berlin",
    },
    {
        "kind": "calendar", "every": 2, "unit": "month", "at": ["09:00"], "days": [], "weekdays": ["workday"],
        "nth": [2, -1], "start": "2026-12-07", "timezone": "Europe/Berlin",
    },
    {
        "kind": "solar", "event": "dusk_civil", "latitude": 52.52, "longitude": -13.405, "timezone": "Europe/Berlin",
    },
    {
        "kind": "interval", "every": "90m", "offset": "5m", "timezone": "Europe/Berlin",
        "window": {"from": "22:00", "until": "04:30:30", "days": ["mon", "fri"]},
    },
    {
        "kind": "rrule", "rrule": "FREQ=MONTHLY;BYDAY=2FR,-1MO", "dtstart": "2026-01-09T09:00:00",
        "exdate": ["2026-02-13", "2026-03-13T09:00:00"], "timezone": "Europe/Berlin",
    },
    {
        "kind": "any",
        "of": [
            {
                "kind": "cron", "expr": "0 9 * * *", "timezone": "Europe/Berlin", "day_match": "or",
                "dst_gap": "next_valid", "dst_fold": "first",
            },
            {"kind": "once", "at": "2031-03-04T05:06:07Z"},
        ],
    },
    FULL["schedule"],
]  # fmt: skip
LEAST: dict[str, tuple[str, ...]] = {
    "cron": ("expr", "dialect"), "hourly": ("minute",), "interval": ("every",), "calendar": ("unit",), "once": ("at",),
    "solar": ("event", "latitude", "longitude"), "any": ("of",), "rrule": ("rrule", "dtstart"),
}  # fmt: skip
OF_SPECS = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec['kind']} {spec.get('every', '')}".strip())
OPTIONS = {
    "tag": "tags",
    "attempts": "retry",
    "start": "start_at",
    "end": "end_at",
    "header": "headers",
    "limit": "limits",
}
# The form makes the common ones by picking, into specs of these kinds.
CHOICES = {*KINDS, "pick"}
# An instant is stored in UTC, however it was written.
NOT_STORED = {"once": {"timezone"}}


def fields(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def stored(spec: dict[str, Any] | None = None) -> dict[str, Any]:
    """The definition of FULL with this schedule."""
    body = FULL if spec is None else {**FULL, "schedule": spec}
    return definition_of(read_job(body, created_at=AT)[0])


def test_the_full_job_sets_every_field_to_something_else_than_its_default() -> None:
    least = {name: FULL[name] for name in ("job_id", "task", "schedule")}
    assert set(FULL) == set(least) | set(DEFAULTS) == FIELDS
    assert stored() == FULL
    for name, default in DEFAULTS.items():
        assert FULL[name] != default, name
        for inner in default if name in GROUPS else ():
            assert FULL[name][inner] != default[inner], (name, inner)


def test_a_field_is_an_attribute_of_a_job_and_a_new_one_is_stored_only_where_it_is_given() -> None:
    assert {field.name for field in dataclasses.fields(Job)} >= FIELDS
    least = {name: FULL[name] for name in ("job_id", "task", "schedule")}
    sparse = {field.name for field in JOB_FIELDS if field.sparse}
    assert set(definition_of(read_job(least, created_at=AT)[0])) == FIELDS - sparse


def test_a_job_gives_its_runs_every_field_that_both_have() -> None:
    job, _ = read_job(FULL, created_at=AT)
    # Of the run itself: the trigger's or the catching-up one.
    shared = FIELDS & {field.name for field in dataclasses.fields(NewRun)} - {"overlap"}
    assert shared == {*RUN_FIELDS, "job_id"} - {"run_at", "fair_key"}
    taken = (("api", None), ("tenant", "5"))
    for run in (new_occurrence(job, AT, AT, 0), read_trigger(job, {}, "x", AT)):
        expected = {name: getattr(job, name) for name in shared} | {"limits": taken, "headers": job.run_headers}
        assert {name: getattr(run, name) for name in shared} == expected
        assert run.lane == lane_of(run.limits) == 'limits:[["tenant","5"]]'
    by_key = dataclasses.replace(job, limits=())
    assert new_occurrence(by_key, AT, AT, 0).lane == read_trigger(by_key, {}, "x", AT).lane == "key:two"
    assert read_trigger(dataclasses.replace(by_key, fair_key=None), {}, "x", AT).lane == "job:full"


def test_the_specs_show_every_kind_with_every_field() -> None:
    assert {spec["kind"] for spec in SPECS} == set(KINDS) == set(SPEC_FIELDS)
    for kind, known in SPEC_FIELDS.items():
        shown_by_specs = {name for spec in SPECS if spec["kind"] == kind for name in spec} - {"kind"}
        assert shown_by_specs | NOT_STORED.get(kind, set()) == set(known)


@OF_SPECS
def test_a_spec_is_stored_as_it_is_and_every_part_of_the_core_knows_its_kind(spec: dict[str, Any]) -> None:
    job, _ = read_job({**FULL, "schedule": spec}, created_at=AT)
    assert {name: job.schedule_spec[name] for name in spec} == spec
    assert describe(job.schedule)
    assert zone_of(job.schedule) == spec.get("timezone", "UTC")


def test_each_kind_has_a_class_of_its_own() -> None:
    classes = {type(read_job({**FULL, "schedule": spec}, created_at=AT)[0].schedule): spec["kind"] for spec in SPECS}
    assert set(classes) == set(get_args(OwnSchedule))
    assert set(classes.values()) == set(KINDS)


def test_the_document_of_requests_and_answers_names_the_same_fields() -> None:
    assert fields(schemas.JobIn) == fields(schemas.JobPut) == FIELDS
    assert fields(schemas.JobPatch) == FIELDS - {"job_id"}
    job, _ = read_job(FULL, created_at=AT)
    assert fields(answers.JobBody) == set(job_body(job))
    assert fields(answers.JobOut) == FIELDS | READ_ONLY
    assert fields(schemas.Misfire) == set(FULL["misfire"])
    assert fields(schemas.Retry) == set(FULL["retry"])


def test_the_document_names_every_kind_and_its_fields() -> None:
    models = get_args(schemas.Schedule.model_fields["root"].annotation)
    documented = {get_args(model.model_fields["kind"].annotation)[0]: fields(model) - {"kind"} for model in models}
    assert documented == {kind: set(known) for kind, known in SPEC_FIELDS.items()}


@OF_SPECS
def test_a_default_that_the_document_states_is_the_one_that_a_schedule_gets(spec: dict[str, Any]) -> None:
    models = get_args(schemas.Schedule.model_fields["root"].annotation)
    (model,) = (each for each in models if get_args(each.model_fields["kind"].annotation)[0] == spec["kind"])
    stated = {
        name: said["default"]
        for name, said in model.model_json_schema()["properties"].items()
        if said.get("default") is not None
    }
    needed = {name: spec[name] for name in spec if name in ("kind", *LEAST[spec["kind"]])}
    assert stated.items() <= canonical_spec(needed, job_id="a").items()
    # The one that depends on the line.
    assert "dst_fold" not in stated


def test_the_form_knows_every_kind_and_every_field(api: TestClient) -> None:
    assert {kind for kind, _, _ in job_fields.KINDS} == CHOICES
    page = api.get("/new-job").text.partition("<main>")[2].partition("</main>")[0]
    inputs = set(re.findall(r'<(?:input|select|textarea)[^>]* name="([^"]+)"', page))
    whole = {name for name in inputs if "." not in name} | {name.partition(".")[0] for name in inputs}
    assert whole - {"kind", "version", "csrf"} == (FIELDS - {"schedule"}) | CHOICES
    for group in ("misfire", "retry"):
        assert {name.partition(".")[2] for name in inputs if name.startswith(f"{group}.")} == set(FULL[group])
    for kind, known in SPEC_FIELDS.items():
        of_kind = {name.partition(".")[2] for name in inputs if name.startswith(f"{kind}.")}
        assert of_kind == set(known) - NOT_STORED.get(kind, set())


def test_the_style_sheet_shows_the_fields_of_every_kind() -> None:
    css = (REPOSITORY / "scheduler_service" / "api" / "pages" / "static" / "itinerary.css").read_text("utf-8")
    template = (REPOSITORY / "scheduler_service" / "api" / "pages" / "templates" / "job_form.html").read_text("utf-8")
    assert set(re.findall(r'\.kinds:has\(\[value="(\w+)"\]:checked\) \.(\w+)', css)) == {(k, k) for k in CHOICES}
    assert set(re.findall(r'class="of-kind (\w+)"', template)) == CHOICES


@pytest.fixture
def calendars(api: TestClient) -> None:
    """The calendars that FULL names."""
    for name in ("holidays", "season"):
        rules = [{"weekly": [{"days": "sun" if name == "holidays" else "mon-sun"}]}]
        assert api.put(f"/api/v1/calendars/{name}", json={"rules": rules}).status_code == 200


@OF_SPECS
@pytest.mark.usefixtures("limits", "calendars")
def test_a_job_with_every_field_set_goes_through_the_form_unchanged(api: TestClient, spec: dict[str, Any]) -> None:
    assert api.put("/api/v1/jobs/full", json={**FULL, "schedule": spec}).status_code == 201
    before = api.get("/api/v1/jobs/full").json()
    page = api.get("/jobs/full/edit").text
    answer = submit(api, "/jobs/full/edit", **as_shown(page))
    assert answer.headers.get("location") == "/jobs/full?done=unchanged", answer.text
    assert api.get("/api/v1/jobs/full").json() == before
    # And one that is changed changes in that one field.
    answer = submit(api, "/jobs/full/edit", **{**as_shown(page), "title": "Another", "queue": ""})
    assert answer.headers["location"] == "/jobs/full?done=made"
    after = api.get("/api/v1/jobs/full").json()
    assert after == {**before, "title": "Another", "queue": "default", "version": 2}


@OF_SPECS
@pytest.mark.usefixtures("limits", "calendars")
def test_a_job_with_every_field_is_made_in_the_form(api: TestClient, spec: dict[str, Any]) -> None:
    body = {**FULL, "schedule": spec, "tags": ["a", "b"]}
    typed = {
        name: text
        for name, text in job_fields.fields_of(definition_of(read_job(body, created_at=AT)[0])).items()
        if text
    }
    assert submit(api, "/new-job", **typed).status_code == 303
    found = api.get("/api/v1/jobs/full").json()
    assert {name: found[name] for name in FIELDS} == {**stored(spec), "tags": ["a", "b"]}


@OF_SPECS
def test_the_command_line_says_each_kind_in_its_own_words(spec: dict[str, Any]) -> None:
    words = cli_jobs._schedule_text(stored(spec)["schedule"])
    assert words != spec["kind"], "it is told as one of a newer service"
    assert cli_jobs._schedule_text({"kind": "lunar", "phase": "full"}) == "lunar"


@pytest.mark.parametrize("command", [cli_jobs.add, cli_jobs.edit])
def test_every_field_has_an_option(command: Any) -> None:
    options = {OPTIONS.get(name, name) for name in inspect.signature(command).parameters}
    assert FIELDS - options == set()


def test_lines_windows_and_rules_are_said_by_options() -> None:
    names = inspect.signature(cli_jobs.add).parameters

    def schedule(**given: Any) -> Any:
        return job_options.fields_of({**dict.fromkeys(names), **given}, None)["schedule"]

    lines = [{"kind": "cron", "expr": expr, "timezone": "Europe/Berlin"} for expr in ("0 9 * * *", "30 17 * * fri")]
    several = schedule(cron=["0 9 * * *", "30 17 * * fri"], timezone="Europe/Berlin")
    assert several == {"kind": "any", "of": lines}
    assert schedule(cron=["0 9 * * *"], timezone="Europe/Berlin") == lines[0]
    window = {"from": "09:00", "until": "17:00", "days": "mon-fri"}
    assert schedule(every="90m", window="09:00-17:00 mon-fri") == {"kind": "interval", "every": "90m", "window": window}
    assert schedule(window="") == {"window": None}
    rule = {"kind": "rrule", "rrule": "FREQ=DAILY", "dtstart": "2026-01-09T09:00"}
    assert schedule(rrule="FREQ=DAILY", dtstart="2026-01-09T09:00") == rule


def test_jobs_as_code_have_a_method_for_every_kind_and_write_every_field() -> None:
    of_balanced = {"interval": {"balanced", "pinned"}}
    homes: tuple[Any, ...] = (Schedule, decorators)
    for home in homes:
        for kind, known in SPEC_FIELDS.items():
            taken = set(inspect.signature(getattr(home, kind)).parameters)
            assert set(known) - NOT_STORED.get(kind, set()) - of_balanced.get(kind, set()) <= taken, kind
        assert {"every", "pinned", "timezone"} <= set(inspect.signature(home.balanced).parameters)
    assert set(get_args(SolarEvent)) == set(EVENTS)
    assert {*JobFields.__annotations__, "job_id", "task", "schedule"} == FIELDS
    for spec in SPECS:
        definition = stored(spec)
        assert stored() | {"schedule": definition["schedule"]} == definition
        assert definition_of(read_job(short_body(definition), created_at=AT)[0]) == definition


def test_every_field_stands_in_the_manual() -> None:
    page = "".join(
        (MANUAL / f"{name}.md").read_text("utf-8") for name in ("jobs", "cron", "clocks", "runs", "balancing", "api")
    )
    names = {
        *FIELDS,
        *FULL["misfire"],
        *FULL["retry"],
        *KINDS,
        *(name for known in SPEC_FIELDS.values() for name in known),
    }
    assert {name for name in names if not re.search(rf"\b{name}\b", page)} == set()
