"""Times of pages: written and read in the zone that the reader chose, by one place of the code."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import parse_instant
from scheduler_service.api.pages import reader_zone
from scheduler_service.api.pages.moments import moment, read_time, sentence_times, typed_time
from scheduler_service.api.pages.reader_zone import ReaderZone, absolute
from scheduler_service.api.pages.templating import HERE
from tests.support.answering_leader import AnsweringLeader
from tests.support.forms import submit

BERLIN = "Europe/Berlin"
BERLINS = {"itinerary_tz": "local", "itinerary_zone": "Europe%2FBerlin"}


@pytest.fixture
def berlin() -> Any:
    """A reader in Berlin who typed into a form of this zone."""
    token = reader_zone._SHOWN.set(ReaderZone(BERLIN, "local", BERLIN, BERLIN))
    yield
    reader_zone._SHOWN.reset(token)


@pytest.mark.parametrize(
    ("instant", "plain", "exact"),
    [
        ("2026-07-01T10:00:00.5Z", "2026-07-01 12:00:00", "2026-07-01 12:00:00.500"),
        ("2026-12-31T23:30:00Z", "2027-01-01 00:30:00", "2027-01-01 00:30:00.000"),
        ("2026-10-25T00:30:00Z", "2026-10-25 02:30:00 +02:00", "2026-10-25 02:30:00.000 +02:00"),
        ("2026-10-25T01:30:00Z", "2026-10-25 02:30:00 +01:00", "2026-10-25 02:30:00.000 +01:00"),
    ],
)
def test_an_hour_that_comes_twice_bears_its_offset(berlin: None, instant: str, plain: str, exact: str) -> None:
    shown = moment(parse_instant(instant), 0)
    assert (shown.plain, shown.exact) == (plain, exact)
    assert read_time(shown.plain, "at") // 1_000_000 == parse_instant(instant) // 1_000_000


@pytest.mark.parametrize(
    ("typed", "instant"),
    [
        ("2026-12-01 16:00", "2026-12-01T15:00:00Z"),
        ("2026-12-01", "2026-11-30T23:00:00Z"),
        ("2026-10-25 02:30", "2026-10-25T00:30:00Z"),
        ("2026-03-29 02:30", "2026-03-29T01:00:00Z"),
        ("2026-12-01T16:00:00Z", "2026-12-01T16:00:00Z"),
        ("2026-12-01T16:00:00+05:30", "2026-12-01T10:30:00Z"),
    ],
)
def test_a_typed_time_is_read_in_the_zone_of_its_form(berlin: None, typed: str, instant: str) -> None:
    assert read_time(typed, "at") == parse_instant(instant)


def test_the_end_of_time_is_no_error(berlin: None) -> None:
    assert moment(parse_instant("9999-12-31T23:59:59Z"), 0).plain == "9999-12-31 23:59:59"


@pytest.mark.parametrize(
    ("typed", "timezone", "offset"),
    [
        ("9999-12-31 23:59:59", "America/New_York", "-05:00"),
        ("0001-01-01", "Asia/Tokyo", "+09:19"),  # the local mean time, 09:18:59
        ("0001-01-01T09:18:58", "Asia/Tokyo", "+09:19"),
    ],
)
def test_a_time_outside_of_all_years_by_its_zone_is_refused(typed: str, timezone: str, offset: str) -> None:
    told = absolute(typed, timezone)
    assert told[19:] == offset
    with pytest.raises(BadValue, match="outside of the years 1 to 9999"):
        parse_instant(told)


@pytest.mark.parametrize("tail", ["0001-01-01T00:00:00&tz=Asia/Tokyo", "9999-12-31T23:59:59&tz=America/New_York"])
def test_such_a_time_of_a_filter_is_a_page_that_refuses_it(api: TestClient, job: dict[str, Any], tail: str) -> None:
    api.post("/api/v1/jobs", json=job)
    addresses = (
        "/runs?since=",
        "/runs?until=",
        "/timeline?from=",
        "/timeline?to=",
        "/audit?since=",
        "/explain?job_id=a.job&at=",
    )
    for address in (*addresses, "/jobs/a.job?at="):
        answer = api.get(address + tail)
        assert (answer.status_code, answer.headers["content-type"][:9]) == (422, "text/html"), address


def test_such_a_time_of_a_form_is_refused_at_its_field(api: TestClient, job: dict[str, Any]) -> None:
    api.post("/api/v1/jobs", json=job)
    typed = {"until": "9999-12-31T23:59:59", "tz": "America/New_York", "reason": "x"}
    for path, more in (
        ("/jobs/a.job/pause", {}),
        ("/queues", {"queue": "q"}),
        ("/freezes", {"scope": "queues", "names": "q"}),
    ):
        answer = submit(api, path, **typed, **more)
        assert (answer.status_code, answer.headers["content-type"][:9]) == (422, "text/html"), path
        assert "outside of the years 1 to 9999" in answer.text, path


def test_a_sentence_has_its_times_in_the_zone_and_ids_stay(berlin: None) -> None:
    run_id = "a.job_2026-07-01T10:00:00Z"
    said = f"Run {run_id} was due at 2026-07-01T10:00:00Z; started at 2026-07-01T10:00:02.36Z."
    assert sentence_times(said) == f"Run {run_id} was due at 2026-07-01 12:00:00; started at 2026-07-01 12:00:02.360."


def test_a_field_shows_its_time_again_and_what_is_none_as_it_was_typed(berlin: None) -> None:
    assert typed_time("2026-12-01T15:00:00Z") == "2026-12-01 16:00"
    assert typed_time("2026-12-01T15:00:07Z", "T") == "2026-12-01T16:00:07"
    assert typed_time("yesterday") == "yesterday"


def test_a_page_is_in_one_zone_that_it_names(api: TestClient, job: dict[str, Any], leader: AnsweringLeader) -> None:
    api.post("/api/v1/jobs", json=job)
    api.post("/api/v1/jobs/a.job/pause", json={"until": "2030-07-01T10:00:00Z"})
    assert "until 2030-07-01 10:00:00 UTC" in api.get("/jobs/a.job").text
    api.cookies.update(BERLINS)
    own = api.get("/jobs/a.job").text
    assert "until 2030-07-01 12:00:00 Europe/Berlin" in own
    assert "(UTC" not in own
    assert "until 2030-07-01 19:00:00 Asia/Tokyo" in api.get("/jobs/a.job?tz=Asia/Tokyo").text
    odd = api.get("/jobs/a.job?tz=Mars")
    assert (odd.status_code, "Europe/Berlin" in odd.text) == (422, True)


def test_the_job_s_zone_holds_on_its_pages(api: TestClient, job: dict[str, Any], leader: AnsweringLeader) -> None:
    schedule = {"kind": "cron", "expr": "0 9 * * *", "timezone": "Asia/Tokyo"}
    api.post("/api/v1/jobs", json={**job, "schedule": schedule})
    api.cookies.update({**BERLINS, "itinerary_tz": "job"})
    assert re.search(r"As of <time[^>]*>[-\d: ]+ Asia/Tokyo", api.get("/jobs/a.job").text)
    assert re.search(r"As of <time[^>]*>[-\d: ]+ UTC", api.get("/jobs").text)


def test_an_address_with_typed_times_becomes_one_that_means_the_same_to_everybody(api: TestClient) -> None:
    api.cookies.update(BERLINS)
    answer = api.get(f"/runs?queue=q&since=2026-07-01+12:00&until=&tz={BERLIN}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?queue=q&since=2026-07-01T10%3A00%3A00Z")
    field = 'name="since" value="{}"'
    assert field.format("2026-07-01 12:00") in api.get(answer.headers["location"]).text
    api.cookies.clear()
    assert field.format("2026-07-01 10:00") in api.get(answer.headers["location"]).text
    wrong = api.get(f"/runs?since=soon&tz={BERLIN}", follow_redirects=False)
    assert (wrong.status_code, 'value="soon"' in wrong.text) == (422, True)


@pytest.mark.parametrize(
    "address",
    [
        f"/{path}=2026-12-01&{end}="
        for path, end in (("runs?since", "until"), ("audit?since", "until"), ("timeline?from", "to"))
    ],
)
def test_a_refused_end_is_quoted_as_its_field_shows_it(api: TestClient, address: str) -> None:
    for tail, shown in (("2026-11-01", "2026-11-01 00:00"), ("2026-11-01 09:00&tz=Asia/Tokyo", "2026-11-01 09:00")):
        answer = api.get(address + tail)
        assert answer.status_code == 422
        assert f"&#39;{shown}&#39; is not accepted; give a time a" in answer.text
        assert f'value="{shown}"' in answer.text
        assert "{zone}" not in answer.text


def test_a_form_is_read_in_the_zone_in_which_it_was_shown(api: TestClient, job: dict[str, Any]) -> None:
    api.post("/api/v1/jobs", json=job)
    assert submit(api, "/jobs/a.job/pause", until="2030-07-01T12:00", tz=BERLIN).status_code == 303
    assert api.get("/api/v1/jobs/a.job").json()["paused_until"] == "2030-07-01T10:00:00Z"


def test_preferences_are_kept_in_cookies_and_lead_back(api: TestClient) -> None:
    answer = submit(api, "/preferences", tz="local", back="/runs?queue=q&tz=Asia/Tokyo&done=paused")
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?queue=q")
    assert "itinerary_tz=local" in answer.headers["set-cookie"]
    assert submit(api, "/preferences", theme="dark", back="//other.example").headers["location"] == "/"
    assert '<html lang="en" data-theme="dark">' in api.get("/").text
    assert submit(api, "/preferences", theme="pink", back="/").status_code == 422
    submit(api, "/preferences", theme="auto", back="/")
    assert '<html lang="en">' in api.get("/").text
    assert api.post("/preferences", data={"theme": "dark"}).status_code == 403


def test_every_form_with_times_sends_the_zone_in_which_it_was_shown() -> None:
    forms = [
        form
        for template in (HERE / "templates").glob("*.html")
        for form in re.findall(r"<form .*?</form>", template.read_text("utf-8"), re.DOTALL)
        if re.search(r"<label>[^<]*\(\{\{ zone_name\(\)", form)
    ]
    assert len(forms) > 8
    assert [form for form in forms if "zoned()" not in form] == []


def test_a_run_is_shown_in_the_zone_of_its_job(api: TestClient, job: dict[str, Any], leader: AnsweringLeader) -> None:
    schedule = {"kind": "cron", "expr": "0 9 * * *", "timezone": "Asia/Tokyo"}
    api.post("/api/v1/jobs", json={**job, "schedule": schedule})
    run_id = api.post("/api/v1/jobs/a.job/trigger").json()["run_id"]
    api.cookies.update({**BERLINS, "itinerary_tz": "job"})
    assert re.search(r"As of <time[^>]*>[-\d: ]+ Asia/Tokyo", api.get(f"/runs/{run_id}").text)
    api.delete("/api/v1/jobs/a.job")
    assert re.search(r"As of <time[^>]*>[-\d: ]+ UTC", api.get(f"/runs/{run_id}").text)


def test_the_load_map_is_in_the_zone_of_the_page(api: TestClient, leader: AnsweringLeader) -> None:
    api.cookies.update(BERLINS)
    assert "hours in Europe/Berlin" in api.get("/parts/distribution").text
    page = api.get("/parts/distribution?tz=Asia/Kathmandu").text
    assert "hours in Asia/Kathmandu" in page
    assert "&amp;tz=Asia%2FKathmandu#h" in page
    assert 'hx-get="/parts/distribution?tz=Asia%2FKathmandu"' in api.get("/load?tz=Asia/Kathmandu").text
    page = api.get("/load").text
    assert 'hx-get="/parts/distribution"' in page
    assert "Nothing has ended in these days" in page
