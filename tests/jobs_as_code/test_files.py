"""Job files: what they say, what is refused, and that what is written is read back the same."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.protocol.errors import BadValue, BadValues, ItineraryError
from itinerary.protocol.instants import DAY, MINUTE, parse_instant
from scheduler_service.core.contract import monitor_json
from scheduler_service.core.contract.job_json import definition_of, read_job
from scheduler_service.core.contract.job_plan import read_source
from scheduler_service.core.schedules.schedule import occurrences
from scheduler_service.jobs_as_code.reading import read_jobs, read_place, source_of_place
from scheduler_service.jobs_as_code.schedule import Schedule
from scheduler_service.jobs_as_code.texts import Format, read_text_as, write_text_as
from scheduler_service.jobs_as_code.writing import short_body, short_monitor

HERE = Path(__file__).parent
MIDNIGHT = parse_instant("2026-11-27T00:00:00Z")
FIRST_TIMES = {
    "job-1": ["00:17", "01:17", "02:17"],
    "job-2": ["00:04", "00:08", "00:12", "00:16"],
    "job-3": ["00:07", "00:13", "00:19"],
    "job-4": ["00:27", "00:52", "01:17", "01:42"],
    "job-5": ["01:40", "03:20", "05:00"],
}


def definition(body: dict[str, Any]) -> dict[str, Any]:
    return definition_of(read_job(body, created_at=MIDNIGHT)[0])


@pytest.mark.parametrize("name", ["seed.toml", "seed.yaml", "seed.py"])
def test_the_seeds_five_jobs_run_when_it_says_they_do_in_every_format(name: str) -> None:
    found = read_place(str(HERE / name))
    assert found.source == "seed"
    for body in found.jobs:
        job, _ = read_job(body, created_at=MIDNIGHT)
        times = [(at - MIDNIGHT) // MINUTE for at in occurrences(job.schedule, MIDNIGHT, MIDNIGHT + DAY)]
        expected = FIRST_TIMES[job.job_id]
        assert [f"{minute // 60:02d}:{minute % 60:02d}" for minute in times[: len(expected)]] == expected
    assert [body["job_id"] for body in found.jobs] == [f"job-{n}" for n in range(1, 6)]


def test_the_three_files_say_the_same() -> None:
    files = [read_place(str(HERE / name)).jobs for name in ("seed.toml", "seed.yaml", "seed.py")]
    assert [[definition(job) for job in jobs] for jobs in files] == [[definition(job) for job in files[0]]] * 3


def test_a_text_in_the_place_of_the_schedule_is_a_cron_line_and_defaults_lie_below() -> None:
    content = {
        "source": "shop",
        "defaults": {"task": "t", "timezone": "Europe/Berlin", "queue": "slow"},
        "jobs": [
            {"job_id": "a", "schedule": "0 2 * * *"},
            {"job_id": "b", "queue": "fast", "schedule": {"kind": "hourly", "minute": 1, "timezone": "UTC"}},
            {"job_id": "c", "schedule": {"kind": "once", "at": "2027-01-01T00:00:00Z"}},
            {"job_id": "d", "schedule": {"kind": "any", "of": [{"kind": "cron", "expr": "0 2 * * *"}]}},
        ],
    }
    a, b, c, d = read_jobs(content).jobs
    assert a["schedule"] == {"timezone": "Europe/Berlin", "kind": "cron", "expr": "0 2 * * *"}
    assert (a["queue"], b["queue"], b["schedule"]["timezone"]) == ("slow", "fast", "UTC")
    assert "timezone" not in c["schedule"]
    assert d["schedule"]["of"] == [{"timezone": "Europe/Berlin", "kind": "cron", "expr": "0 2 * * *"}]


def test_everything_wrong_is_told_at_once_with_the_job_that_it_is_about() -> None:
    content = {
        "colour": 1,
        "jobs": [
            {"job_id": "a", "task": "t", "schedule": "61 * * * *"},
            {"job_id": "b", "task": "t", "schedule": "* * * * *", "paused": True},
            {"task": "t"},
            7,
        ],
    }
    with pytest.raises(BadValues) as refused:
        read_jobs(content)
    places = [error.field for error in refused.value.errors]
    assert places == ["colour", "job a.schedule.expr", "job b.paused", "jobs[2].job_id", "jobs[2].schedule", "jobs[3]"]


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("yaml", "jobs: [{job_id: a, job_id: b}]", "'job_id' twice"),
        ("yaml", "jobs: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("yaml", "1: 2", "a key is a text"),
        ("yaml", "- a", "a table"),
        ("yaml", "schedule: * * * * *", "alias"),
        ("json", '{"jobs": [], "jobs": []}', "duplicate key"),
        ("json", "[]", "a table"),
        ("toml", "jobs = [", "TOML"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_in_words(kind: Format, text: str, said: str) -> None:
    with pytest.raises(BadValue, match=said):
        read_text_as(kind, text)


def test_yaml_is_read_without_the_surprises_of_yaml_1_1() -> None:
    text = "on: off\nat: 10:30\nday: 2026-11-27\nnumber: 010\nflag: true\nnothing: ~\nfloat: 1.5e3\nempty:\n"
    assert read_text_as("yaml", text) == {
        "on": "off", "at": "10:30", "day": "2026-11-27", "number": 10, "flag": True, "nothing": None, "float": 1500.0,
        "empty": None,
    }  # fmt: skip


def test_yaml_anchors_and_merges_work() -> None:
    text = "base: &base {a: 1, b: 2}\njob: {<<: *base, b: 3}\n"
    assert read_text_as("yaml", text)["job"] == {"a": 1, "b": 3}


def test_times_of_toml_become_texts() -> None:
    assert read_text_as("toml", "at = 2026-12-01T02:00:00Z\nday = 2026-12-01")["at"] == "2026-12-01T02:00:00Z"


def test_toml_has_no_null_and_says_so() -> None:
    with pytest.raises(BadValue, match=r"a\.kwargs.*TOML has no null"):
        write_text_as("toml", "s", [{"job_id": "a", "kwargs": {"x": None}}])


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20) | st.sampled_from(
    [
        "on",
        "no",
        "10:30",
        "010",
        "1e3",
        "~",
        "null",
        "2026-11-27",
        "0x1f",
        "=",
        "<<",
        "- a",
        "a: b",
        "'",
        '"',
        "\x7f",
    ]
)
SCALARS = TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))
NULLS = st.recursive(
    SCALARS | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)


def same(kind: Format, jobs: list[dict[str, Any]]) -> None:
    read = read_text_as(kind, write_text_as(kind, "shop", jobs))
    assert json.dumps(read["jobs"]) == json.dumps(jobs)
    assert read["source"] == "shop"


@pytest.mark.slow
@given(st.dictionaries(TEXTS, NULLS, max_size=3), st.sampled_from(["yaml", "json"]))
def test_what_is_written_is_read_back_as_the_same_values(kwargs: dict[str, Any], kind: Format) -> None:
    same(kind, [{"job_id": "a", "kwargs": kwargs}])


@pytest.mark.slow
@given(st.dictionaries(TEXTS, VALUES, max_size=3))
def test_what_is_written_as_toml_is_read_back_as_the_same_values(kwargs: dict[str, Any]) -> None:
    same("toml", [{"job_id": "a", "kwargs": kwargs}, {"job_id": "b"}])


@pytest.mark.parametrize("kind", ["toml", "yaml", "json"])
def test_monitors_stand_beside_the_jobs_and_are_read_back(kind: Format) -> None:
    wanted = {"schedule": "0 2 * * *", "grace": "30m", "calendars": {"exclude": ["plant"]}}
    content = {"source": "shop", "defaults": {"timezone": "Europe/Berlin"}, "monitors": {"backup": wanted}, "jobs": []}
    monitors = read_jobs(content).monitors
    assert monitors == {
        "backup": {
            "schedule": {"kind": "cron", "expr": "0 2 * * *", "timezone": "Europe/Berlin"},
            "grace": "30m",
            "calendars": {"exclude": ["plant"]},
        }
    }
    stored = monitor_json.definition_of(monitor_json.read_monitor("backup", monitors["backup"], 0))
    short = {"backup": short_monitor({"monitor_id": "backup", **stored, "paused": True})}
    assert short == monitors, "its pause is not the file's"
    assert read_jobs(read_text_as(kind, write_text_as(kind, "shop", [], short))).monitors == monitors


def test_every_wrong_value_of_a_monitor_in_a_file_is_named() -> None:
    with pytest.raises(BadValues) as refused:
        read_jobs({"jobs": [], "monitors": {"a": {"schedule": "61 * * * *"}, "b": 3}})
    assert [error.field for error in refused.value.errors] == ["monitor a.schedule.expr", "monitor b"]
    with pytest.raises(BadValues, match="monitors"):
        read_jobs({"jobs": [], "monitors": []})


def test_a_schedule_in_python_has_monitors_too() -> None:
    schedule = Schedule("shop", timezone="Europe/Berlin")
    schedule.monitor("backup", "0 2 * * *", grace="30m")
    assert schedule.monitors["backup"]["schedule"]["timezone"] == "Europe/Berlin"
    with pytest.raises(BadValue, match="duplicate id"):
        schedule.monitor("backup", {"kind": "hourly", "minute": 1})
    with pytest.raises(BadValues, match="grace"):
        schedule.monitor("sync", "0 2 * * *", grace="soon")


@pytest.mark.parametrize("kind", ["toml", "yaml", "json"])
def test_no_jobs_are_a_file_too(kind: Format) -> None:
    same(kind, [])


SPECS = [
    {"kind": "cron", "expr": "0 2 * * *"},
    {"kind": "cron", "expr": "0 0 13 * fri", "day_match": "and", "timezone": "Europe/Berlin", "dst_fold": "both"},
    {"kind": "cron", "expr": "H H * * *"},
    {"kind": "cron", "expr": "0 0 9 13 * FRI", "dialect": "spring", "timezone": "Europe/Berlin"},
    {"kind": "hourly", "minute": 0},
    {"kind": "interval", "every": "25m", "balanced": True},
    {"kind": "interval", "every": "25m", "anchor": "2026-01-01T00:00:00Z"},
    {"kind": "calendar", "unit": "month", "at": ["05:30"], "days": [31, -1], "start": "2026-01-31"},
    {"kind": "once", "at": "2027-01-01T00:00:00Z"},
]


@pytest.mark.parametrize("spec", SPECS)
def test_the_short_form_means_the_same_and_cannot_be_shorter(spec: dict[str, Any]) -> None:
    body = definition({"job_id": "a", "task": "t", "schedule": spec, "retry": {"max_attempts": 3}, "tags": ["x"]})
    short = short_body(body)
    assert definition(short) == body
    assert short["retry"] == {"max_attempts": 3}
    assert set(short) == {"job_id", "task", "schedule", "retry", "tags"}
    assert short["schedule"].keys() == spec.keys()


def test_calendars_are_written_without_what_the_service_fills_in() -> None:
    schedule = {"kind": "cron", "expr": "0 2 * * *"}
    body = definition({"job_id": "a", "task": "t", "schedule": schedule, "calendars": {"exclude": ["closed"]}})
    short = short_body(body)
    assert (definition(short), short["calendars"]) == (body, {"exclude": ["closed"]})
    same("toml", [short])  # which has no null for `workdays`


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('broken')", "broken"),
        ("raise SystemExit(3)", "SystemExit"),
        ("schedule = 3", "a Schedule named schedule"),
        ("from scheduler_service.jobs_as_code import Schedule\nschedule = Schedule()\nschedule.run()", "__main__"),
    ],
)
def test_a_python_file_that_cannot_be_used_says_why(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "odd_jobs.py").write_text(text)
    with pytest.raises(ItineraryError, match=said):
        read_place(str(tmp_path / "odd_jobs.py"))


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    for name in ("no.toml", "no.py", "no_such_module:schedule"):
        with pytest.raises(ItineraryError, match="no"):
            read_place(str(tmp_path / name) if "." in name else name)


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("/a/shop/jobs.toml", "shop/jobs.toml"),
        ("/a/my shop/jobs of today.py", "my-shop/jobs-of-today.py"),
        ("/jobs.yaml", "jobs.yaml"),
        ("/.x/jobs.json", "x/jobs.json"),
        ("shop.jobs:schedule", "shop.jobs"),
        (f"/{'a' * 200}/jobs.toml", "a" * 128),
    ],
)
def test_jobs_belong_to_the_file_that_says_them_where_nobody_is_named(place: str, source: str) -> None:
    assert source_of_place(place) == source
    assert read_source(source) == source


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{below}'] * 9)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("yaml", BOMB, "at most 500,000 values"),
        ("yaml", "a: &a 1\njobs: [" + "*a," * 1_001 + "]", "at most 1,000 aliases"),
        ("yaml", "jobs: &a [*a]", "an alias stands within what it names"),
        ("yaml", "jobs: " + "[" * 150 + "]" * 150, "at most 100 levels"),
        ("toml", ".".join(["a"] * 20_000) + " = 1", "a key may have 100 parts"),
        ("toml", "[" + ".".join(["a"] * 20_000) + "]", "a key may have 100 parts"),
        ("toml", "x = {" + ".".join(['"a"'] * 20_000) + " = 1}", "a key may have 100 parts"),
    ],
)
def test_a_small_file_that_grows_is_refused_before_it_does(kind: Format, text: str, said: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadValue, match=said):
            read_text_as(kind, text)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_a_file_may_have_ordinary_aliases_and_dotted_texts() -> None:
    text = "x: &retry {max_attempts: 3}\njobs:\n" + "- {<<: *retry, job_id: a}\n" * 200
    assert len(read_text_as("yaml", text)["jobs"]) == 200
    dotted = ".".join(["a"] * 200)
    assert read_text_as("toml", f'jobs = ["{dotted}"]\na.b.c = 1') == {"jobs": [dotted], "a": {"b": {"c": 1}}}


@pytest.mark.parametrize("wrong", ["", [], 0, False])
def test_defaults_of_a_wrong_type_are_refused_though_they_are_empty(wrong: Any) -> None:
    with pytest.raises(BadValues, match=r"defaults: .* give a JSON object"):
        read_jobs({"jobs": [], "defaults": wrong})
