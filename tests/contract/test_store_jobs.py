"""JobStore: every change is a version, and two changes at once come one after the other."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from itinerary.protocol.errors import BadValue, Conflict, NotFound, StaleVersion
from itinerary.protocol.instants import DAY, HOUR, SECOND
from scheduler_service.core.balancing.placements import PlaceJobs, Placement
from scheduler_service.core.contract.job_json import definition_of
from scheduler_service.core.leader.commands import CreateRuns
from scheduler_service.core.model import Job
from scheduler_service.ports.stores import JobFilter, Page
from scheduler_service.sql import job_pages
from tests.support.store_bed import StoreBed, a_job, sql_bed


def names(page: Page[Job]) -> list[str]:
    return [job.job_id for job in page.items]


def listed(bed: StoreBed, limit: int = 100, cursor: str | None = None, **asked: Any) -> Page[Job]:
    return bed.jobs.list(JobFilter(**asked), limit, cursor)


def test_a_created_job_comes_back_as_it_was_given_at_version_one(bed: StoreBed) -> None:
    given = a_job(
        title="Ünïcode", args=[1, {"a": None}], kwargs={"x": 1e16}, queue="q", priority=0, jitter="90s",
        misfire={"policy": "fire_all", "grace": "1h", "max_catch_up": 3}, overlap="queue", timeout="5m",
        retry={"max_attempts": 3, "factor": 1.5, "jitter": False}, tags=["a", "b"], description="words",
        start_at="2026-01-01T00:00:00.000001Z", end_at="9998-12-31T23:59:59.999999Z",
    )  # fmt: skip
    made = bed.jobs.create(given)
    assert definition_of(made) == definition_of(given)
    assert (made.version, made.deleted, made.paused) == (1, False, False)
    assert made.effective_from == made.created_at > 1_500_000_000 * SECOND
    assert bed.jobs.get("job") == made


def test_an_interval_counts_from_the_day_on_which_the_store_made_the_job(bed: StoreBed) -> None:
    made = bed.jobs.create(a_job())
    edited, _ = bed.jobs.replace(a_job(title="edited"), None)
    assert made.schedule != a_job().schedule
    assert edited.schedule == made.schedule


def test_a_job_that_exists_is_not_created_again(bed: StoreBed) -> None:
    bed.jobs.create(a_job())
    with pytest.raises(Conflict):
        bed.jobs.create(a_job(title="other"))
    assert bed.jobs.get("job").title == ""


def test_a_job_that_is_not_there_is_not_found(bed: StoreBed) -> None:
    for call in (
        lambda: bed.jobs.get("job"),
        lambda: bed.jobs.set_paused("job", True, None, None),
        lambda: bed.jobs.delete("job", None),
    ):
        with pytest.raises(NotFound):
            call()


@pytest.mark.parametrize("name", ["a\x00b", "a\udc80b"])
def test_a_name_that_no_job_can_have_is_not_found(bed: StoreBed, name: str) -> None:
    with pytest.raises(NotFound):
        bed.jobs.get(name)


def test_replace_makes_replaces_and_leaves_an_equal_definition_alone(bed: StoreBed) -> None:
    made, how_created = bed.jobs.replace(a_job(), None)
    same, how_same = bed.jobs.replace(a_job(), None)
    edited, how_edited = bed.jobs.replace(a_job(title="new"), None)
    assert (how_created, how_same, how_edited) == ("made", "unchanged", "replaced")
    assert (made.version, same.version, edited.version) == (1, 1, 2)
    assert same == made
    assert edited.created_at == made.created_at
    assert edited.effective_from > made.effective_from


def test_replace_of_a_version_that_is_not_current_is_stale(bed: StoreBed) -> None:
    with pytest.raises(StaleVersion):
        bed.jobs.replace(a_job(), 1)
    bed.jobs.create(a_job())
    bed.jobs.replace(a_job(title="second"), 1)
    with pytest.raises(StaleVersion):
        bed.jobs.replace(a_job(title="third"), 1)
    assert bed.jobs.get("job").title == "second"
    assert bed.jobs.replace(a_job(title="third"), 2)[0].version == 3


def test_a_pause_whose_time_has_passed_is_none(bed: StoreBed) -> None:
    bed.jobs.create(a_job())
    bed.jobs.create(a_job("other"))
    bed.jobs.set_paused("job", True, "short", SECOND, skips=True)
    bed.jobs.set_paused("other", True, "long", 2_000_000_000 * SECOND)
    found = bed.jobs.get("job")
    assert (found.paused, found.pause_reason, found.paused_until, found.pause_skips) == (False, None, None, False)
    assert [job.paused for job in bed.jobs.list(JobFilter(), 9, None).items] == [False, True]
    for paused, wanted in ((True, ["other"]), (False, ["job"])):
        assert [job.job_id for job in bed.jobs.list(JobFilter(paused=paused), 9, None).items] == wanted
    assert bed.jobs.set_paused("job", True, "again", None).version == 3


def test_a_pause_is_a_version_with_its_reason_and_the_same_again_is_none(bed: StoreBed) -> None:
    bed.jobs.create(a_job())
    paused = bed.jobs.set_paused("job", True, "holidays", 2_000_000_000 * SECOND)
    assert (paused.paused, paused.pause_reason, paused.paused_until) == (True, "holidays", 2_000_000_000 * SECOND)
    assert paused.version == 2
    assert bed.jobs.set_paused("job", True, "holidays", 2_000_000_000 * SECOND).version == 2
    assert bed.jobs.set_paused("job", True, "longer", None).version == 3
    with pytest.raises(StaleVersion):
        bed.jobs.set_paused("job", True, "not over theirs", HOUR, 2)
    assert bed.jobs.get("job").pause_reason == "longer"
    resumed = bed.jobs.set_paused("job", False, "ignored", HOUR, 3)
    assert (resumed.paused, resumed.pause_reason, resumed.paused_until) == (False, None, None)
    assert bed.jobs.set_paused("job", False, None, None).version == resumed.version == 4
    assert bed.jobs.get("job") == resumed


def test_an_edit_keeps_the_pause(bed: StoreBed) -> None:
    bed.jobs.create(a_job())
    bed.jobs.set_paused("job", True, "why", None)
    edited, _ = bed.jobs.replace(a_job(title="edited"), None)
    assert (edited.paused, edited.pause_reason, edited.version) == (True, "why", 3)


def test_a_deleted_job_is_gone_until_it_is_made_again_with_the_next_version(bed: StoreBed) -> None:
    first = bed.jobs.create(a_job())
    with pytest.raises(StaleVersion):
        bed.jobs.delete("job", 2)
    bed.jobs.delete("job", 1)
    with pytest.raises(NotFound):
        bed.jobs.get("job")
    assert names(listed(bed)) == []
    again = bed.jobs.create(a_job(title="again"))
    assert (again.version, again.paused) == (3, False)
    assert again.created_at > first.created_at
    bed.jobs.delete("job", None)
    assert bed.jobs.replace(a_job(), None)[1] == "made"


def test_the_list_is_by_id_in_pages_that_neither_repeat_nor_miss(bed: StoreBed) -> None:
    ids = ["B", "a", "a-b", "a.b", "a_b", "b", "c1", "c10"]
    for job_id in reversed(ids):
        bed.jobs.create(a_job(job_id))
    shown, cursor = [], None
    while True:
        page = listed(bed, limit=3, cursor=cursor)
        shown += names(page)
        cursor = page.next_cursor
        if cursor is None:
            break
        bed.jobs.set_paused(shown[-1], True, None, None)
    assert shown == sorted(ids)


def test_a_page_that_ends_the_list_has_no_cursor(bed: StoreBed) -> None:
    bed.jobs.create(a_job())
    assert listed(bed, limit=1).next_cursor is None


@pytest.mark.parametrize("cursor", ["", "!", "bm8", "WzFd", "é", "W10", "eyJhIjogMX0", "WyJcdTAwMDAiXQ"])
def test_a_cursor_that_no_page_gave_is_refused(bed: StoreBed, cursor: str) -> None:
    with pytest.raises(BadValue):
        listed(bed, cursor=cursor)


def test_the_list_finds_whole_tags_and_parts_of_id_title_and_task(bed: StoreBed) -> None:
    bed.jobs.create(a_job("one", tags=["fin", 'quo"te', "two\nlines", "50%"], title="Größe"))
    bed.jobs.create(a_job("two", tags=["finance"], task="billing.Close"))
    for tag, found in {
        "fin": ["one"],
        "finance": ["two"],
        "FIN": [],
        'quo"te': ["one"],
        "two": [],
        "50%": ["one"],
    }.items():
        assert names(listed(bed, tag=tag)) == found
    assert names(listed(bed, tag="two\nlines")) == ["one"]
    for part, found in {
        "GRÖSSE": ["one"],
        "close": ["two"],
        "tw": ["two"],
        "%": [],
        "_": [],
        "o": ["one", "two"],
    }.items():
        assert names(listed(bed, text=part)) == found


def test_the_list_tells_paused_jobs_from_others(bed: StoreBed) -> None:
    bed.jobs.create(a_job("one"))
    bed.jobs.create(a_job("two"))
    bed.jobs.set_paused("two", True, None, None)
    assert names(listed(bed, paused=True)) == ["two"]
    assert names(listed(bed, paused=False)) == ["one"]


def test_histories_hold_every_version_that_still_matters(bed: StoreBed) -> None:
    lease = bed.lead()
    first = bed.jobs.create(a_job())
    second, _ = bed.jobs.replace(a_job(title="second"), None)
    third = bed.jobs.set_paused("job", True, None, None)
    bed.jobs.create(a_job("other"))

    def versions(since: int | None) -> list[int]:
        (history,) = bed.leader.histories_of(["job", "nobody"], since)
        assert [h for h in bed.leader.job_histories(since) if h.job_id == "job"] == [history]
        return [version.version for version in history.versions]

    assert versions(None) == [1, 2, 3]
    assert versions(third.effective_from) == [1, 2, 3], "not planned yet"
    bed.leader.create_runs(lease, CreateRuns((), lease.now, planned=(("job", 2), ("other", 1))))
    assert versions(third.effective_from) == [2, 3], "what is planned tells what the edit changed"
    bed.leader.create_runs(lease, CreateRuns((), lease.now, planned=(("job", 3), ("other", 1))))
    assert versions(None) == [1, 2, 3]
    assert versions(second.effective_from - 1) == [1, 2, 3]
    assert versions(second.effective_from) == [2, 3]
    assert versions(third.effective_from) == [3]
    (history,) = bed.leader.histories_of(["job"], None)
    assert history.versions == (first, second, third)
    assert (history.planned_version, history.current.paused) == (3, True)


def test_all_jobs_at_once_are_what_each_is_by_its_name(bed: StoreBed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_pages, "_AT_ONCE", 3)
    lease = bed.lead()
    for number in range(5):
        bed.planned_job(lease, f"alike-{number}", tags=[f"{number}", "é"], args=[number], description=f"of {number}")
    balanced = {"kind": "interval", "every": "1h", "balanced": True}
    marks = [bed.planned_job(lease, "placed", schedule=balanced).effective_from]
    place = Placement("placed", 1, None, 1_800_000_123 * SECOND)
    assert bed.leader.place_jobs(lease, PlaceJobs((place,), lease.now)) == frozenset()
    for name in ("edited", "paused", "until", "deleted", "waits"):
        bed.planned_job(lease, name)
    for changed in (
        bed.jobs.replace(a_job("edited", title="second"), None)[0],
        bed.jobs.set_paused("paused", True, "why", None, skips=True),
        bed.jobs.set_paused("until", True, None, lease.now + HOUR),
    ):
        bed.leader.create_runs(lease, CreateRuns((), lease.now, planned=((changed.job_id, 2),)))
        marks.append(changed.effective_from)
    bed.jobs.delete("deleted", None)
    bed.leader.create_runs(lease, CreateRuns((), lease.now, planned=(("deleted", 2),)))
    bed.jobs.set_paused("waits", True, None, None)
    bed.jobs.create(a_job("new"))
    for since in (None, *marks, marks[-1] + HOUR, marks[-1] + 400 * DAY):
        found = bed.leader.job_histories(since)
        ids = [history.job_id for history in found]
        assert ids == sorted(ids)
        assert len(ids) == 11 + (since is None or since <= marks[-1])
        by_name = {history.job_id: history for history in bed.leader.histories_of(ids, since)}
        assert found == [by_name[job_id] for job_id in ids]


@pytest.mark.postgres
def test_large_definitions_are_not_joined_since_postgresql_joins_a_gigabyte_at_most(postgres_url: str) -> None:
    with sql_bed(postgres_url) as stores:
        assert stores.database is not None
        lease = stores.lead()
        small = stores.planned_job(lease, "small")
        large = stores.planned_job(lease, "large", kwargs={"text": "x" * 20_000})
        with stores.database.read() as connection:
            (page,) = job_pages.pages(connection, lease.now)
        assert ([*page.groups[0].job_ids], page.others, page.last) == (["small"], ["large"], "small")
        assert [history.current for history in stores.leader.job_histories(None)] == [large, small]


def test_a_deleted_job_is_in_its_history_and_leaves_the_whole_once_that_is_planned_and_past(bed: StoreBed) -> None:
    lease = bed.lead()
    bed.jobs.create(a_job())
    bed.jobs.delete("job", None)
    (history,) = bed.leader.histories_of(["job"], lease.now)
    assert history.current.deleted
    assert len(bed.leader.job_histories(history.current.effective_from)) == 1
    bed.leader.create_runs(lease, CreateRuns((), lease.now, planned=(("job", 2),)))
    assert bed.leader.job_histories(history.current.effective_from) == []
    assert len(bed.leader.job_histories(history.current.effective_from - 1)) == 1
    assert len(bed.leader.histories_of(["job"], history.current.effective_from)) == 1


def test_changes_at_once_come_one_after_the_other(bed: StoreBed) -> None:
    beds = [bed.beside() for _ in range(6)]
    together = threading.Barrier(len(beds))

    def change(number: int) -> str:
        together.wait(60)
        return beds[number].jobs.replace(a_job(title=f"title {number}"), None)[1]

    with ThreadPoolExecutor(len(beds)) as pool:
        outcomes = list(pool.map(change, range(len(beds))))
    assert sorted(outcomes) == ["made", *["replaced"] * 5]
    (history,) = bed.leader.histories_of(["job"], None)
    assert [job.version for job in history.versions] == [1, 2, 3, 4, 5, 6]
    starts = [job.effective_from for job in history.versions]
    assert starts == sorted(set(starts))


def test_of_many_who_edit_the_same_version_at_once_one_succeeds(bed: StoreBed) -> None:
    bed.jobs.create(a_job())
    beds = [bed.beside() for _ in range(4)]
    together = threading.Barrier(len(beds))

    def edit(number: int) -> bool:
        together.wait(60)
        try:
            beds[number].jobs.replace(a_job(title=f"title {number}"), 1)
        except StaleVersion:
            return False
        return True

    with ThreadPoolExecutor(len(beds)) as pool:
        assert sum(pool.map(edit, range(len(beds)))) == 1


def test_a_job_keeps_whatever_pause_it_was_made_with(bed: StoreBed) -> None:
    assert bed.jobs.create(replace(a_job(), paused=True, pause_reason="from the start")).paused
    assert bed.jobs.get("job").pause_reason == "from the start"
