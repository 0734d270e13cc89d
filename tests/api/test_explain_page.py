"""The page of explanations: a story with a picture of the instant, and what to ask about."""

import re
from typing import Any

from fastapi.testclient import TestClient

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant, format_instant, parse_instant
from scheduler_service.api.pages.instant_picture import VERDICTS, picture_of
from scheduler_service.api.pages.templating import in_code
from scheduler_service.core.explain.explanation import Because, Explanation, Verdict
from tests.support.answering_leader import AnsweringLeader

AT = parse_instant("2026-12-01T01:00:00Z")


def row(table: str, **values: Any) -> Because:
    texts = {name: format_instant(value) if isinstance(value, int) else value for name, value in values.items()}
    return Because("Said.", {"table": table, **texts})


def ran(run_id: str, *times: Instant | None) -> Because:
    names = ("scheduled_at", "due_at", "pending_at", "started_at", "finished_at")
    return row("runs", run_id=run_id, **dict(zip(names, times, strict=True)))


def test_the_steps_of_a_run_stand_in_their_order_on_the_axis() -> None:
    steps = (AT, AT, AT + SECOND, AT + 2 * SECOND, AT + 62 * SECOND)
    lead = row("leases", holder="host-1", began_at=AT - HOUR, confirmed_at=AT + HOUR, ended_at=None, ending=None)
    why = Explanation(Verdict.COMPLETED, (ran("r", *steps), lead), "j", "r", AT)
    picture = picture_of(why, AT + HOUR)
    assert picture is not None
    labels = [mark.label for mark in picture.marks]
    assert labels == ["planned", "due", "dispatched +1.0 s", "started +2.0 s", "finished +1 min 2 s"]
    places = [mark.at for mark in picture.marks]
    assert places == sorted(places)
    assert places[0] == picture.asked
    assert places[-1] < 100
    assert [(bar.label, bar.at, bar.width) for bar in picture.bars] == [("host-1 led", 0, 100)]
    assert 1 < len(picture.ticks) <= 6


def test_what_held_it_is_a_bar_that_ends_where_it_ended() -> None:
    lead = row("leaderships", holder="h", began_at=AT - HOUR, confirmed_at=AT - 2 * SECOND, ended_at=None, ending="x")
    frozen = row("freezes", **{"from": AT - 5 * SECOND, "until": AT + HOUR, "ended_at": AT + 5 * SECOND})
    other = ran("other", AT - MINUTE, AT, AT, AT - 6 * SECOND, AT + 4 * SECOND)
    paused = row("job_versions", paused=True, effective_from=AT - HOUR, paused_until=None)
    why = Explanation(
        Verdict.FROZEN, (row("gaps", start_at=AT, end_at=AT + SECOND), lead, frozen, paused), "j", None, AT
    )
    picture = picture_of(why, AT + HOUR)
    assert picture is not None
    assert {bar.label: (bar.at, bar.width) for bar in picture.bars} == {
        "left out": (50, 5), "h led": (0, 40), "frozen": (25, 50), "paused": (0, 100),
    }  # fmt: skip
    waits = Explanation(Verdict.OVERLAP, (ran("r", AT, AT, None, None, None), other), "j", "r", AT)
    assert [bar.label for bar in picture_of(waits, AT + HOUR).bars] == ["another run"]  # type: ignore[union-attr]


def test_an_instant_that_never_was_has_its_neighbours() -> None:
    why = Explanation(Verdict.NEVER_DUE, (Because("No."),), "j", None, AT, (AT - HOUR, AT + 2 * HOUR))
    picture = picture_of(why, AT)
    assert picture is not None
    assert [mark.label for mark in picture.marks] == ["the run before −1 h", "the run after +2 h"]
    assert 0 < picture.marks[0].at < picture.asked < picture.marks[1].at < 100  # type: ignore[operator]


def test_every_verdict_has_its_headline() -> None:
    assert set(VERDICTS) == set(Verdict)


def test_the_page_suggests_instants_and_draws_one(
    api: TestClient, job: dict[str, Any], leader: AnsweringLeader
) -> None:
    assert "its latest runs are suggested" in api.get("/explain").text
    api.post("/api/v1/jobs", json=job)
    api.post("/api/v1/jobs/a.job/trigger")
    page = api.get("/explain?job_id=a.job").text
    link = re.search(r'href="(/explain\?job_id=a.job&amp;at=[^"]+)"', page)
    assert link is not None
    assert 'list="jobs"' in page
    drawn = api.get(link[1].replace("&amp;", "&")).text
    assert 'class="instant"' in drawn
    assert re.search(r"</strong> It waits|</strong> No worker|</strong> It is not due|</strong> It was never", drawn)
    assert not re.search(r"T\d\d:\d\d:\d\d(\.\d+)?Z", re.sub(r"<[^>]*>|_\S*Z", "", drawn.partition("<main>")[2]))


def test_what_one_may_type_is_shown_as_code_and_markup_as_text() -> None:
    shown = in_code("start one with `itinerary worker -Q <b>`, or <i>wait</i>")
    assert shown == "start one with <code>itinerary worker -Q &lt;b&gt;</code>, or &lt;i&gt;wait&lt;/i&gt;"
