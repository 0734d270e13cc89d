"""Pages of calendars: the year as marked days, rules typed one a line, edits that another edit preceded refused."""

import html
import re
from datetime import date

import pytest
from fastapi.testclient import TestClient

from scheduler_service.api.pages.month_grids import month_grids
from scheduler_service.core.calendars.year import MarkedDay
from tests.support.forms import as_shown, submit

NEW = {"calendar_id": "plant", "timezone": "Europe/Berlin", "description": "The plant is shut"}
RULES = "2027-05-01 Labour Day\r\n\r\n2027-12-24..2027-12-26 Shut\nweekly sun 02:00-04:00 Maintenance"


def test_days_lie_under_their_weekday_and_say_what_they_are() -> None:
    marked = [MarkedDay(date(2027, 5, 1), True, ("Labour Day",)), MarkedDay(date(2027, 5, 2), False, ())]
    may = month_grids(2027, {day.day: day for day in marked}, date(2027, 5, 31))[4]
    assert (may.name, may.text, len(may.days)) == ("May", "May 2027: 1, 2", 31)
    first, second, *_, last = may.days
    assert (first.column, first.line, first.mark, first.text) == (5, 0, "whole", "Sat 1 May 2027: Labour Day")
    assert (second.column, second.mark) == (6, "part")
    assert second.text == "Sun 2 May 2027: in the calendar (part of the day)"
    assert (last.column, last.line, last.is_today, last.mark) == (0, 5, True, "open")
    many = MarkedDay(date(2027, 5, 1), True, tuple(f"n{n}" for n in range(1_000)))
    text = month_grids(2027, {many.day: many}, date(2027, 5, 31))[4].days[0].text
    assert text == "Sat 1 May 2027: n0, n1, n2, n3, n4 and 995 more"


@pytest.mark.slow
def test_a_calendar_is_defined_by_lines_shown_as_a_year_and_changed(api: TestClient) -> None:
    assert submit(api, "/calendars", **NEW, rules=RULES).headers["location"] == "/calendars/plant?done=calendar-saved"
    stored = api.get("/api/v1/calendars/plant").json()
    assert [sorted(rule) for rule in stored["rules"]] == [
        ["date", "name"],
        ["from", "name", "until"],
        ["name", "weekly"],
    ]
    page = html.unescape(api.get("/calendars/plant?year=2027").text)
    assert "Sat 1 May 2027: Labour Day</title>" in page
    assert page.count('class="day whole') == 4
    assert page.count('class="day part') == 51  # the Sunday of 26 December is a whole day
    assert "2027-12-25</td><td>Shut" in page
    assert "Maintenance</td>" not in page  # what is each week is no day of its own
    assert "plant" in api.get("/calendars").text
    shown = {**as_shown(page), "do": "save"}  # the form that deletes is on the page too
    assert shown["rules"].split("\n")[1:] == [line for line in RULES.splitlines() if line]
    assert submit(api, "/calendars/plant", **{**shown, "rules": "2027-05-01 May Day"}).status_code == 303
    assert api.get("/api/v1/calendars/plant").json()["version"] == 2
    late = submit(api, "/calendars/plant", **shown)
    assert late.status_code == 409
    assert "somebody changed it" in late.text
    assert submit(api, "/calendars/plant", do="delete").headers["location"] == "/calendars?done=calendar-deleted"
    assert api.get("/calendars/plant").status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"rules": "2027-05-01\ntomorrow"}, "tomorrow"),
        ({"rules": "2027-02-30"}, "2027-02-30"),
        ({"rules": ""}, "rules"),
        ({"timezone": "Berlin", "rules": "2027-05-01"}, "Europe/Berlin"),
        ({"calendar_id": "two words", "rules": "2027-05-01"}, "two words"),
    ],
)
def test_a_wrong_line_is_named_and_what_was_typed_stays(api: TestClient, typed: dict[str, str], said: str) -> None:
    refused = submit(api, "/calendars", **{**NEW, **typed})
    assert refused.status_code == 422
    page = html.unescape(refused.text)
    wrong = " ".join(re.findall(r'class="wrong"[^>]*>(.*?)</', page))
    assert said in wrong
    assert as_shown(page)["description"] == NEW["description"]


@pytest.mark.slow
def test_a_calendar_is_not_defined_over_another(api: TestClient) -> None:
    assert submit(api, "/calendars", **NEW, rules="2027-05-01").status_code == 303
    refused = submit(api, "/calendars", **NEW, rules="2027-05-02")
    assert refused.status_code == 422
    assert "edit it on its page" in refused.text


@pytest.mark.slow
def test_rules_that_are_no_lines_stay_as_they_are(api: TestClient) -> None:
    rules = [{"date": "2027-05-01", "name": "two\nlines"}]
    assert api.put("/api/v1/calendars/odd", json={"rules": rules}).status_code == 200
    shown = {**as_shown(api.get("/calendars/odd").text), "do": "save"}
    assert "rules" not in shown
    assert submit(api, "/calendars/odd", **{**shown, "description": "kept"}).status_code == 303
    stored = api.get("/api/v1/calendars/odd").json()
    assert (stored["rules"], stored["description"]) == (rules, "kept")
