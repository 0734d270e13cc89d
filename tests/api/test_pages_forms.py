"""What pages change: every form needs its token, does what it says once, and loses nothing that was typed."""

import base64
import hashlib
import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from scheduler_service.api.pages import job as job_page
from scheduler_service.api.services import previews
from scheduler_service.config.settings import ApiToken, Settings
from tests.support.answering_leader import AnsweringLeader
from tests.support.forms import as_shown, submit, token

pytestmark = pytest.mark.slow  # real processes, or many round trips

JOB = {"job_id": "made.here", "task": "itinerary.echo", "kind": "cron", "cron.expr": "30 2 * * *"}
CHANGES = (
    "/new-job", "/bulk", "/bulk/x/stop", "/bulk/x/undo", "/jobs/a.job/edit",
    "/jobs/a.job/pause", "/jobs/a.job/skip-next", "/jobs/a.job/resume",
    "/jobs/a.job/trigger", "/jobs/a.job/backfill", "/jobs/a.job/delete", "/runs/x/cancel", "/runs/x/retry",
    "/failures/retry", "/failures/backfill", "/queues", "/freezes", "/limits", "/calendars", "/calendars/x",
    "/parts/rebalance/preview", "/parts/rebalance?plan_id=x", "/parts/rebalance/undo",
)  # fmt: skip


@pytest.fixture
def made(api: TestClient, job: dict[str, Any]) -> str:
    """The page of a job that is there."""
    assert api.post("/api/v1/jobs", json=job).status_code == 201
    return "/jobs/a.job"


@pytest.mark.parametrize("path", CHANGES)
def test_a_form_without_its_token_changes_nothing(api: TestClient, made: str, path: str) -> None:
    before = api.get("/api/v1/jobs").json(), api.get("/api/v1/runs").json()
    assert api.post(path, data={"job": "a.job", "do": "pause"}).status_code == 403
    token(api)  # the cookie alone is what another site's form would bring along
    assert api.post(path, data={"job": "a.job", "do": "pause"}).status_code == 403
    assert api.post(path, data={"csrf": "0" * 64}).status_code == 403
    assert (api.get("/api/v1/jobs").json(), api.get("/api/v1/runs").json()) == before


def test_the_token_of_another_browser_is_not_taken(
    api: TestClient, client_of: Callable[[Settings], TestClient], settings: Settings, made: str
) -> None:
    other = token(client_of(settings))
    token(api)
    assert api.post(f"{made}/trigger", headers=other).status_code == 403


def test_with_tokens_the_browsers_own_login_guards_the_forms(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    tokens = [
        ApiToken(name=role, role=role, sha256=hashlib.sha256(role.encode()).hexdigest()) for role in ("viewer", "admin")
    ]
    api = client_of(settings.model_copy(update={"api_tokens": tuple(tokens)}))
    asked = api.get("/jobs")
    assert (asked.status_code, asked.headers["www-authenticate"]) == (401, 'Basic realm="itinerary"')
    api.headers["Authorization"] = _login("viewer")
    assert "Create a job" not in api.get("/jobs").text
    assert submit(api, "/new-job", **JOB).status_code == 403
    assert api.get("/new-job").status_code == 403
    of_viewer = token(api)
    api.headers["Authorization"] = _login("admin")
    assert api.post("/new-job", data=JOB, headers=of_viewer).status_code == 403
    assert submit(api, "/new-job", **JOB).status_code == 303


def _login(password: str) -> str:
    return "Basic " + base64.b64encode(f"me:{password}".encode()).decode()


def test_a_job_is_made_from_the_form_and_the_leader_is_told(api: TestClient, leader: AnsweringLeader) -> None:
    answer = submit(
        api, "/new-job", **JOB, **{
            "cron.timezone": "Europe/Berlin", "title": "T", "tags": "red, blue", "kwargs": '{"n": 1}', "queue": "q",
            "priority": "3", "retry.max_attempts": "3",
            "retry.factor": "1.5", "misfire.policy": "skip", "timeout": "1m",
        },
    )  # fmt: skip
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"] == "/jobs/made.here?done=made"
    body = api.get("/api/v1/jobs/made.here").json()
    assert body["schedule"]["expr"] == "30 2 * * *"
    assert body["schedule"]["timezone"] == "Europe/Berlin"
    assert (body["tags"], body["kwargs"], body["queue"], body["priority"]) == (["red", "blue"], {"n": 1}, "q", 3)
    assert (body["retry"]["max_attempts"], body["retry"]["factor"], body["retry"]["jitter"]) == (3, 1.5, False)
    assert (body["misfire"]["policy"], body["timeout"]) == ("skip", "1m")
    assert "The job is saved." in api.get(answer.headers["location"]).text


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "interval", "interval.every": "25m", "interval.offset": "2m"},
        {"kind": "interval", "interval.every": "2h", "interval.balanced": "on", "interval.pinned": "on"},
        {"kind": "hourly", "hourly.minute": "17"},
        {"kind": "calendar", "calendar.unit": "month", "calendar.at": "05:30, 17:00", "calendar.days": "1, -1"},
        {"kind": "calendar", "calendar.unit": "week", "calendar.at": "05:30", "calendar.weekdays": "mon, fri"},
        {"kind": "once", "once.at": "2030-01-01T00:00:00Z"},
    ],
)
def test_the_form_of_a_job_as_it_is_saves_it_unchanged(api: TestClient, fields: dict[str, str]) -> None:
    assert submit(api, "/new-job", job_id="j", task="t", **fields).status_code == 303
    page = api.get("/jobs/j/edit").text
    answer = submit(api, "/jobs/j/edit", **as_shown(page))
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"] == "/jobs/j?done=unchanged"
    assert api.get("/api/v1/jobs/j").json()["version"] == 1


def test_what_is_wrong_is_told_all_at_once_and_what_was_typed_stays(api: TestClient) -> None:
    wrong = {**JOB, "cron.expr": "61 * * * *", "kwargs": "[", "priority": "many", "title": "Still <here>"}
    answer = submit(api, "/new-job", **wrong)
    assert answer.status_code == 422
    assert answer.text.count('role="alert"') == 1
    for text in ("61 * * * *", "Still &lt;here&gt;", 'value="many"'):
        assert text in answer.text
    for name, label in (("cron.expr", "Line"), ("kwargs", "By name"), ("priority", "Priority")):
        assert f'<a href="#field-{name}">{label}</a>: ' in answer.text
        assert f'id="field-{name}" aria-invalid="true" aria-describedby="wrong-{name}"' in answer.text
        assert f'<small class="wrong" id="wrong-{name}">' in answer.text
    assert api.get("/api/v1/jobs").json()["items"] == []


@pytest.mark.parametrize(
    ("path", "typed", "field", "kept"),
    [
        ("/jobs/a.job/delete", {"confirm": "another"}, "confirm", 'value="another"'),
        ("/jobs/a.job/pause", {"until": "1999-01-01T00:00", "reason": "because"}, "until", 'value="because"'),
        ("/jobs/a.job/trigger", {"kwargs": '{"a"'}, "kwargs", "{&#34;a&#34;</textarea>"),
        ("/jobs/a.job/trigger", {"limits": '["gone"]'}, "limits", "[&#34;gone&#34;]</textarea>"),
    ],
)
def test_a_form_that_is_refused_is_shown_again_on_its_page(
    api: TestClient, made: str, path: str, typed: dict[str, str], field: str, kept: str
) -> None:
    answer = submit(api, path, **typed)
    assert answer.status_code == 422
    assert f'id="wrong-{field}"' in answer.text
    assert f'id="field-{field}"' in answer.text
    assert kept in answer.text
    assert "/jobs/a.job" in answer.text
    assert re.search(rf'<details open>(?:(?!</details>).)*id="field-{field}"', answer.text, re.DOTALL)


def test_a_taken_id_is_told_in_the_form(api: TestClient, made: str) -> None:
    answer = submit(api, "/new-job", **{**JOB, "job_id": "a.job"})
    assert answer.status_code == 409
    assert "a.job exists" in answer.text


def test_an_edit_that_another_edit_came_before_is_refused(api: TestClient, made: str) -> None:
    shown = as_shown(api.get(f"{made}/edit").text)
    api.patch("/api/v1/jobs/a.job", json={"title": "Theirs"})
    assert submit(api, f"{made}/edit", **{**shown, "title": "Mine"}).status_code == 409
    assert api.get("/api/v1/jobs/a.job").json()["title"] == "Theirs"


def test_an_edit_makes_a_version_that_the_page_shows_with_its_difference(api: TestClient, made: str) -> None:
    shown = as_shown(api.get(f"{made}/edit").text)
    assert submit(api, f"{made}/edit", **{**shown, "interval.every": "30m"}).status_code == 303
    page = api.get(made).text
    for text in ("<code>schedule.every</code>", "25m", "30m", "loopback"):
        assert text in page


@pytest.mark.parametrize(
    ("field", "value", "schedule", "warning"),
    [
        ("cron.expr", "0 0 1 1 * 0 2020", {}, "there will be no run: all its times are past"),
        ("cron.expr", "0 */5 * * * *", {}, "did you mean"),
        ("cron.expr", "* * * * *", {"dst_gap": "skip"}, "no effect"),
    ],
)
def test_a_warning_is_the_same_in_form_preview_answer_and_plan(
    api: TestClient, field: str, value: str, schedule: dict[str, str], warning: str
) -> None:
    spec = {"kind": "cron", "expr": value, **schedule}
    made = api.post("/api/v1/jobs", json={"job_id": "doubtful", "task": "t", "schedule": spec}).json()["warnings"]
    (said,) = [text for text in made if warning in text]
    assert said in api.post("/api/v1/preview", json={"schedule": spec}).json()["warnings"]
    planned = api.post("/api/v1/jobs/apply", json={"jobs": [{"job_id": "x", "task": "t", "schedule": spec}]}).json()
    assert {"job_id": "x", "msg": said} in planned["warnings"]
    typed = {**JOB, field: value, **{f"cron.{name}": text for name, text in schedule.items()}}
    assert html.unescape(api.post("/parts/preview", data=typed).text).count(said) == 1
    assert said in html.unescape(api.get("/jobs/doubtful").text)


def test_the_form_reads_a_line_of_the_program_that_it_names(api: TestClient) -> None:
    typed = {**JOB, "kind": "cron", "cron.expr": "0 15 10 ? * 6L"}
    # Without the dialect it is refused at its field, with the dialects that read it.
    said = html.unescape(submit(api, "/new-job", **typed).text)
    assert 'give the field dialect: "quartz" or "spring"' in said
    assert submit(api, "/new-job", **typed, **{"cron.dialect": "quartz"}).status_code == 303
    made = api.get("/api/v1/jobs/made.here").json()["schedule"]
    assert (made["expr"], made["dialect"]) == ("0 15 10 ? * 6L", "quartz")
    page = api.get("/jobs/made.here").text
    assert "on the last Friday of the month" in page
    shown = as_shown(api.get("/jobs/made.here/edit").text)
    assert shown["cron.dialect"] == "quartz"
    # An edit that would mean another thing there is refused, not guessed.
    assert submit(api, "/jobs/made.here/edit", **{**shown, "cron.expr": "15 10 * * 5L"}).status_code == 422
    patched = api.patch("/api/v1/jobs/made.here", json={"schedule": {"expr": "15 10 * * 5L", "dialect": None}})
    assert "dialect" not in patched.json()["schedule"]


def test_a_schedule_made_by_picking_is_stored_as_its_own_kind(api: TestClient) -> None:
    new = {**as_shown(api.get("/new-job").text), "job_id": "picked", "task": "itinerary.echo"}
    wrong = submit(api, "/new-job", **{**new, "pick.at": ""})
    assert wrong.status_code == 422
    assert "give a time of day, such as 09:30" in html.unescape(wrong.text)
    assert submit(api, "/new-job", **{**new, "pick.what": "nth", "pick.weekday": "tue"}).status_code == 303
    stored = api.get("/api/v1/jobs/picked").json()["schedule"]
    assert (stored["kind"], stored["expr"]) == ("cron", "0 2 * * tue#1")
    assert as_shown(api.get("/jobs/picked/edit").text)["kind"] == "cron"


def test_a_job_names_calendars_by_fields_of_their_own(api: TestClient) -> None:
    for name in ("de", "plant"):
        assert api.put(f"/api/v1/calendars/{name}", json={"rules": [{"date": "2027-05-01"}]}).status_code == 200
    new = {**as_shown(api.get("/new-job").text), **JOB, "calendars.exclude": "de, plant"}
    wrong = submit(api, "/new-job", **{**new, "calendars.exclude": "de, gone"})
    assert wrong.status_code == 422
    assert re.search(r'name="calendars.exclude"[^>]*aria-invalid="true"', wrong.text)
    assert submit(api, "/new-job", **{**new, "calendars.when_excluded": "next_day"}).status_code == 303
    stored = api.get("/api/v1/jobs/made.here").json()["calendars"]
    assert (stored["exclude"], stored["when_excluded"]) == (["de", "plant"], "next_day")
    shown = as_shown(api.get("/jobs/made.here/edit").text)
    assert (shown["calendars.exclude"], shown["calendars.when_excluded"]) == ("de, plant", "next_day")
    assert submit(api, "/jobs/made.here/edit", **{**shown, "calendars.exclude": ""}).status_code == 422
    none = {**shown, "calendars.exclude": "", "calendars.when_excluded": "skip"}
    assert submit(api, "/jobs/made.here/edit", **none).status_code == 303
    assert api.get("/api/v1/jobs/made.here").json()["calendars"] is None


def test_the_preview_is_of_the_schedule_as_its_calendars_leave_it(api: TestClient) -> None:
    api.put("/api/v1/calendars/rest", json={"rules": [{"weekly": [{"days": "sat,sun"}], "name": "Weekend"}]})
    asked = {"schedule": {"kind": "cron", "expr": "0 9 * * *"}, "from": "2026-12-04T12:00:00Z", "count": 2}
    closed = api.post("/api/v1/preview", json={**asked, "calendars": {"exclude": ["rest"]}}).json()
    assert [item["at"] for item in closed["occurrences"]] == ["2026-12-07T09:00:00Z", "2026-12-08T09:00:00Z"]
    assert [item["at"] for item in closed["left_out"]] == ["2026-12-05T09:00:00Z", "2026-12-06T09:00:00Z"]
    refused = api.post("/api/v1/preview", json={**asked, "calendars": {"exclude": ["gone"]}, "count": 0})
    assert [error["loc"] for error in refused.json()["errors"]] == [["count"]]
    refused = api.post("/api/v1/preview", json={**asked, "calendars": {"exclude": ["gone"]}})
    assert [error["loc"] for error in refused.json()["errors"]] == [["calendars", "exclude", "0"]]

    typed = {"kind": "cron", "cron.expr": "0 9 * * *", "calendars.exclude": "rest"}
    part = html.unescape(api.post("/parts/preview", data=typed).text)
    assert part.count("no runs, left out by calendars</title>") == part.count('class="left-out"') > 100
    assert "left out: " in part
    wrong = api.post("/parts/preview", data={**typed, "calendars.exclude": "gone"}).text
    assert "Not in: " in wrong
    assert "no calendar has this id" in wrong


def test_the_preview_shows_the_next_ten_and_what_the_clocks_do(api: TestClient) -> None:
    fields = {"kind": "cron", "cron.expr": "30 2 28 3 *", "cron.timezone": "Europe/Berlin"}
    part = api.post("/parts/preview", data=fields).text
    assert part.count("<li>") == 10
    assert "Europe/Berlin" in part
    assert "Sun 28 Mar 2027: 1 run</title>" in part
    assert "gap: moved to" in part

    assert "<ol" not in api.post("/parts/preview", data={**fields, "cron.expr": "0 0 31 2 *"}).text


def test_a_job_is_paused_with_a_reason_until_a_time_and_resumed(api: TestClient, made: str) -> None:
    answer = submit(api, f"{made}/pause", reason="holiday", until="2030-01-02T03:04")
    assert answer.headers["location"] == "/jobs/a.job?done=paused"
    body = api.get("/api/v1/jobs/a.job").json()
    assert (body["paused"], body["pause_reason"], body["paused_until"]) == (True, "holiday", "2030-01-02T03:04:00Z")
    page = api.get(made).text
    assert "holiday" in page
    assert "2030-01-02 03:04:00 UTC" in page
    submit(api, f"{made}/resume")
    assert api.get("/api/v1/jobs/a.job").json()["paused"] is False


def test_the_next_run_alone_is_skipped_by_a_pause_that_ends_right_after_it(api: TestClient, made: str) -> None:
    first, second, *_ = api.get("/api/v1/jobs/a.job").json()["next_runs"]
    assert submit(api, f"{made}/skip-next").headers["location"] == "/jobs/a.job?done=skipped"
    body = api.get("/api/v1/jobs/a.job").json()
    assert body["paused_until"] == first.replace("Z", ".000001Z")
    assert body["next_runs"][0] == second
    assert submit(api, f"{made}/skip-next").status_code == 409


def test_skipping_the_next_run_ends_no_pause_that_began_in_the_same_moment(
    api: TestClient, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def next_runs(*asked: Any) -> list[str]:
        found = previews.next_runs(*asked)
        api.post("/api/v1/jobs/a.job/pause", json={"reason": "for good"})
        return found

    monkeypatch.setattr(job_page, "next_runs", next_runs)
    assert submit(api, f"{made}/skip-next").status_code == 412
    body = api.get("/api/v1/jobs/a.job").json()
    assert (body["pause_reason"], body["paused_until"]) == ("for good", None)


def test_run_now_leads_to_the_run_and_takes_arguments(api: TestClient, made: str) -> None:
    api.put("/api/v1/limits/api", json={"concurrency": 2})
    answer = submit(
        api, f"{made}/trigger", kwargs='{"n": 2}', overlap="allow", limits='["api"]', fair_key="acme", force="on"
    )
    path = answer.headers["location"].partition("?")[0]
    assert path.startswith("/runs/a.job_manual-")
    run = api.get(f"/api/v1{path}").json()
    assert (run["kwargs"], run["limits"], run["fair_key"], run["force"]) == ({"n": 2}, ["api"], "acme", True)
    assert "through freezes" in api.get(path).text
    assert submit(api, f"{made}/trigger", kwargs="{").status_code == 422


def test_a_job_is_deleted_only_where_its_name_is_typed(api: TestClient, made: str) -> None:
    assert submit(api, f"{made}/delete", confirm="a job").status_code == 422
    assert submit(api, f"{made}/delete", confirm="a.job").headers["location"] == "/jobs?done=deleted"
    assert api.get(made).status_code == 404


def test_a_run_is_cancelled_and_tried_again(api: TestClient) -> None:
    run_id = api.post("/api/v1/runs", json={"task": "t", "run_at": "2030-01-01T00:00:00Z"}).json()["run_id"]
    assert 'id="cancel"' in api.get(f"/runs/{run_id}").text
    assert submit(api, f"/runs/{run_id}/retry").status_code == 409
    assert submit(api, f"/runs/{run_id}/cancel").status_code == 303
    page = api.get(f"/runs/{run_id}").text
    assert "cancelled on request" in page
    again = submit(api, f"/runs/{run_id}/retry").headers["location"]
    assert f"/runs/{run_id}" in api.get(again).text


@pytest.mark.parametrize("body", [b"\xff", b"a=%ff", b"a=%00"])
def test_a_body_that_is_no_form_is_refused(api: TestClient, body: bytes) -> None:
    answer = api.post("/new-job", content=body, headers=token(api))
    assert answer.status_code in (400, 422)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": 99999999999999999999}',
        '{"a": NaN}',
        '{"a": "\\ud800"}',
        f'{{"a": {"[" * 5000}{"]" * 5000}}}',
        "[1]",
    ],
)
def test_a_form_takes_no_json_that_the_api_would_refuse(api: TestClient, made: str, text: str) -> None:
    assert submit(api, f"{made}/trigger", kwargs=text).status_code == 422
    assert submit(api, "/new-job", **{**JOB, "kwargs": text}).status_code == 422
    assert api.get("/api/v1/runs").json()["items"] == []


def test_a_text_of_several_lines_is_kept_as_it_was(api: TestClient, made: str) -> None:
    api.patch("/api/v1/jobs/a.job", json={"description": "one\ntwo"})
    shown = as_shown(api.get(f"{made}/edit").text)
    as_browsers_send_it = {**shown, "description": shown["description"].replace("\n", "\r\n")}
    assert submit(api, f"{made}/edit", **as_browsers_send_it).headers["location"].endswith("done=unchanged")


def test_a_line_with_seconds_has_the_fold_that_it_has_everywhere(api: TestClient) -> None:
    chosen = re.search(r'name="cron.dst_fold"[^>]*><option value="([^"]*)">as the line says', api.get("/new-job").text)
    assert chosen is not None
    fields = {**JOB, "cron.expr": "30 2 * * * 15", "cron.dst_fold": chosen[1]}
    assert submit(api, "/new-job", **fields).status_code == 303
    assert api.get("/api/v1/jobs/made.here").json()["schedule"]["dst_fold"] == "both"


def test_an_emptied_time_zone_is_an_error_and_not_utc(api: TestClient) -> None:
    assert 'name="cron.timezone" value="UTC"' in api.get("/new-job").text
    page = submit(api, "/new-job", **{**JOB, "cron.timezone": ""})
    assert page.status_code == 422
    assert re.search(r'name="cron.timezone"[^>]*aria-invalid="true"', page.text)
    assert '<a href="#field-cron.timezone">Time zone</a>: ' in page.text
    assert "write UTC if you mean UTC" in page.text
    assert api.get("/api/v1/jobs/made.here").status_code == 404
    assert "Time zone: " in submit(api, "/parts/preview", kind="pick", **{"pick.timezone": " "}).text


def test_a_form_suggests_names_that_are_known(api: TestClient, leader: AnsweringLeader) -> None:
    assert submit(api, "/new-job", **{**JOB, "task": "mail.send", "queue": "mail", "tags": "red"}).status_code == 303
    names = api.get("/parts/names").text
    for kind, name in (("tasks", "mail.send"), ("queues", "mail"), ("tags", "red"), ("zones", "Asia/Kolkata")):
        part = names[names.index(f'<datalist id="{kind}">') :].split("</datalist>")[0]
        assert f'<option value="{name}">' in part
    form = api.get("/new-job").text
    for field, kind in (("task", "tasks"), ("queue", "queues"), ("tags", "tags"), ("cron.timezone", "zones")):
        assert re.search(rf'name="{re.escape(field)}"[^>]* list="{kind}"', form), field
    assert 'list="calendars"' in form


def test_a_form_suggests_what_workers_know_and_marks_what_none_of_them_knows(
    api: TestClient, leader: AnsweringLeader
) -> None:
    assert submit(api, "/new-job", **{**JOB, "task": "of.a.job"}).status_code == 303
    assert 'hx-get="/parts/known-task"' in api.get("/new-job").text
    leader.tasks = {"tasks": ["of.a.worker"], "complete": False}
    names = api.get("/parts/names").text
    assert '<option value="of.a.worker"></option>' in names
    assert '<option value="of.a.job"></option>' in names
    assert api.get("/parts/known-task", params={"task": "of.a.job"}).text.strip() == "", "a worker may know it"
    leader.tasks = {"tasks": ["of.a.worker"], "complete": True}
    assert '<option value="of.a.job" label="no living worker knows it"></option>' in api.get("/parts/names").text
    told = api.get("/parts/known-task", params={"task": "of.a.<job>"}).text
    assert "No living worker knows a task <code>of.a.&lt;job&gt;</code>" in told
    for known in ("of.a.worker", ""):
        assert api.get("/parts/known-task", params={"task": known}).text.strip() == ""


def test_a_form_says_in_words_what_it_stores_as_names(api: TestClient) -> None:
    form = api.get("/new-job").text
    for value, words in (("next_valid", "run at the next time that exists"), ("fire_once", "run the newest once")):
        assert re.search(rf'<option value="{value}"[^>]*>{words}</option>', form)
    assert ">next_valid<" not in form
