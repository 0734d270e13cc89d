"""CalendarStore: calendars as users define them, and the versions by which the leader plans."""

from dataclasses import replace

import pytest

from itinerary.protocol.errors import BadValue, BadValues, Conflict, LeaseLost, NotFound
from itinerary.protocol.instants import DAY, SECOND
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.calendars.model import Compiled, NamedDays, NamedSpan
from scheduler_service.core.calendars.stored import CalendarContent, StoredCalendar
from scheduler_service.core.compact_history import CompactHistory
from scheduler_service.core.contract.job_json import definition_of
from scheduler_service.core.contract.job_plan import JobSet
from scheduler_service.core.contract.pruning import Past
from scheduler_service.core.controls import CalendarEdit
from scheduler_service.core.leader.commands import CreateRuns
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.schedules.schedule import Schedule, upcoming
from scheduler_service.ports.calendars import HOLDS_AFTER
from scheduler_service.ports.records import AuditFilter
from scheduler_service.ports.stores import UNKNOWN, JobFilter
from scheduler_service.sql import calendars as sql_calendars
from scheduler_service.sql.audit import SqlAuditLog
from scheduler_service.sql.job_sets import SqlJobSets
from scheduler_service.sql.named_by_jobs import CALENDARS_NAMED
from scheduler_service.sql.pruning import SqlPruning
from tests.support import fake_calendars
from tests.support.store_bed import StoreBed, a_job

BY = AuditedChange("olga", "operator", "calendar.put")
XMAS = Compiled("Europe/Berlin", days=(NamedDays(20_812, 20_813, "Weihnachten"),))
MORE = replace(XMAS, days=(*XMAS.days, NamedDays(20_819, 20_819, "Neujahr")))
HOURS = replace(XMAS, spans=(NamedSpan(1_800_000_000 * SECOND, 1_800_003_600 * SECOND),))


def content(compiled: Compiled, description: str = "") -> CalendarContent:
    return CalendarContent({"timezone": compiled.timezone, "rules": [], "description": description}, compiled)


def put(bed: StoreBed, calendar_id: str, compiled: Compiled, description: str = "") -> StoredCalendar:
    return bed.calendars.edit(calendar_id, lambda _: content(compiled, description), by=BY)


def name_in_jobs(bed: StoreBed, calendar_id: str, *job_ids: str, by_days: bool = False) -> None:
    if bed.database is None:
        named = {job_id: {calendar_id: by_days} for job_id in job_ids}
        bed.leader._tables.job_calendars.update(named)  # type: ignore[attr-defined]
        return
    with bed.database.write() as connection:
        CALENDARS_NAMED.write(
            connection, {job_id: [calendar_id] for job_id in job_ids}, lambda *_: {"by_days": by_days}
        )


def version_of(bed: StoreBed) -> int:
    controls = bed.leader.controls(-1)
    assert controls is not None
    return controls.version


def test_an_edit_makes_a_version_that_holds_half_a_minute_later(bed: StoreBed) -> None:
    bed.lead()
    first = put(bed, "de", XMAS)
    assert (first.version, first.effective_from) == (1, first.created_at), "nobody can have used it before"
    assert version_of(bed) == 0, "no choice of a leader is outdated"
    second = put(bed, "de", MORE)
    assert second == bed.calendars.get("de")
    assert (second.version, second.effective_from) == (2, second.updated_at + HOLDS_AFTER)
    assert (second.created_at, version_of(bed)) == (first.created_at, 1)
    third = put(bed, "de", XMAS)
    assert third.effective_from > second.effective_from
    past = bed.calendars.versions("de", 2, None)
    assert [(one.version, one.content.compiled, one.actor) for one in past.items] == [
        (3, XMAS, "olga"),
        (2, MORE, "olga"),
    ]
    assert [one.version for one in bed.calendars.versions("de", 2, past.next_cursor).items] == [1]


def test_what_leaves_the_set_as_it_is_makes_no_version(bed: StoreBed) -> None:
    bed.lead()
    first = put(bed, "de", XMAS)
    assert put(bed, "de", XMAS) == first
    described = put(bed, "de", XMAS, "all of Germany")
    assert described == bed.calendars.get("de")
    assert (described.version, described.content.definition["description"]) == (1, "all of Germany")
    assert version_of(bed) == 0

    def refused(there: StoredCalendar | None) -> CalendarContent:
        assert there == described
        raise BadValue("rules", None, "no")

    with pytest.raises(BadValue):
        bed.calendars.edit("de", refused, by=BY)
    assert bed.calendars.get("de") == described


def test_the_versions_that_hold_at_or_after_an_instant_are_read(bed: StoreBed) -> None:
    bed.lead()
    first, second = put(bed, "de", XMAS), put(bed, "de", MORE)
    put(bed, "fr", HOURS)
    every = bed.calendars.versions_of(["de", "fr", "none"], None)
    assert {calendar_id: [one.version for one in versions] for calendar_id, versions in every.items()} == {
        "de": [1, 2], "fr": [1]
    }  # fmt: skip
    assert [one.compiled for one in every["de"]] == [XMAS, MORE]
    assert [one.effective_from for one in every["de"]] == [first.effective_from, second.effective_from]
    later = bed.calendars.versions_of(["de"], second.effective_from)
    assert [one.version for one in later["de"]] == [2]
    assert [one.version for one in bed.calendars.versions_of(["de"], second.effective_from - 1)["de"]] == [1, 2]


def test_a_calendar_that_a_job_names_is_not_deleted_and_keeps_its_days(bed: StoreBed) -> None:
    bed.lead()
    put(bed, "de", XMAS)
    name_in_jobs(bed, "de", "nightly", "hourly")
    with pytest.raises(Conflict, match="calendar de is named by hourly, nightly") as refused:
        bed.calendars.delete("de", by=BY)
    assert refused.value.kind == "calendar-in-use"
    put(bed, "de", HOURS)
    put(bed, "de", XMAS)
    name_in_jobs(bed, "de", "monthly", by_days=True)
    for unfit in (HOURS, replace(XMAS, timezone="Europe/Paris")):
        with pytest.raises(Conflict, match="calendar de is named by monthly"):
            put(bed, "de", unfit)
    assert bed.calendars.get("de").content.compiled == XMAS
    assert bed.calendars.jobs_using("de", 2) == ["hourly", "monthly"]
    assert bed.calendars.jobs_using("de", 2, "hourly") == ["monthly", "nightly"]


def test_a_calendar_that_is_created_again_continues_its_versions(bed: StoreBed) -> None:
    bed.lead()
    put(bed, "de", XMAS)
    bed.calendars.delete("de", by=BY)
    for reached in (bed.calendars.get, lambda name: bed.calendars.delete(name, by=BY)):
        with pytest.raises(NotFound, match="no calendar de"):
            reached("de")
    assert [one.version for one in bed.calendars.versions("de", 5, None).items] == [1], "what was planned by it is told"
    again = put(bed, "de", MORE)
    assert (again.version, again.effective_from) == (2, again.created_at)
    with pytest.raises(NotFound, match="no calendar fr"):
        bed.calendars.versions("fr", 5, None)


def test_calendars_are_listed_by_id_page_by_page(bed: StoreBed) -> None:
    bed.lead()
    for calendar_id in ("c", "a", "b"):
        put(bed, calendar_id, XMAS)
    first = bed.calendars.list(2, None)
    assert [one.calendar_id for one in first.items] == ["a", "b"]
    last = bed.calendars.list(2, first.next_cursor)
    assert ([one.calendar_id for one in last.items], last.next_cursor) == (["c"], None)


def test_one_calendar_too_many_is_refused(bed: StoreBed, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sql_calendars, fake_calendars):
        monkeypatch.setattr(module, "MOST_CALENDARS", 1)
    put(bed, "de", XMAS)
    with pytest.raises(BadValue, match="1 calendars are the most"):
        put(bed, "fr", XMAS)
    put(bed, "de", MORE)


def test_the_cursor_passes_no_version_that_the_leader_does_not_know(bed: StoreBed) -> None:
    lease = bed.lead()
    assert bed.leader.controls(UNKNOWN) is not None
    put(bed, "de", XMAS)
    edited = put(bed, "de", MORE)
    edit = CalendarEdit(1, "de", edited.effective_from)
    for known, since, told in ((0, 0, (edit,)), (0, edited.effective_from + 1, ()), (UNKNOWN, 0, ())):
        controls = bed.leader.controls(known, since)
        assert controls is not None
        assert controls.calendars == told
    run = NewRun("r", RunKind.OCCURRENCE, "t", lease.now, lease.now, job_id="j", job_version=1)
    beyond = CreateRuns((run,), edited.effective_from + 1, control=0)
    with pytest.raises(LeaseLost, match="calendar de was edited"):
        bed.leader.create_runs(lease, beyond)
    assert bed.leader.cursor(lease).materialised_until is None
    assert bed.leader.read_runs(["r"]) == [], "nothing of it is written"
    bed.leader.create_runs(lease, replace(beyond, cursor=edited.effective_from))
    bed.leader.create_runs(lease, replace(beyond, control=1))
    assert bed.leader.cursor(lease).materialised_until == edited.effective_from + 1


def test_jobs_that_name_a_calendar_are_read_page_by_page(bed: StoreBed) -> None:
    lease = bed.lead()
    put(bed, "de", XMAS)
    for job_id in ("a", "b", "c"):
        bed.planned_job(lease, job_id)
    name_in_jobs(bed, "de", "a", "c")
    first, following = bed.leader.calendar_jobs("de", "", lease.now, 1)
    assert ([one.job_id for one in first], following) == (["a"], "a")
    last, following = bed.leader.calendar_jobs("de", "a", lease.now, 2)
    assert ([one.job_id for one in last], following) == (["c"], None)
    assert bed.leader.calendar_jobs("none", "", lease.now, 2) == ([], None)


def test_a_page_of_a_calendars_jobs_judges_no_definition_of_the_pages_before_it_again(sql_stores: StoreBed) -> None:
    lease = sql_stores.lead()
    put(sql_stores, "de", XMAS)
    for job_id in ("a", "b", "c"):
        sql_stores.planned_job(lease, job_id)
    name_in_jobs(sql_stores, "de", "a", "b", "c")
    for _ in range(2):
        pages = [sql_stores.leader.calendar_jobs("de", after, lease.now, 1)[0] for after in ("", "a", "b", "c")]
        assert [isinstance(one, CompactHistory) for page in pages for one in page] == [False, True, True]


def test_a_job_is_saved_with_calendars_that_are_there_and_fit(bed: StoreBed) -> None:
    bed.lead()
    put(bed, "de", XMAS)
    put(bed, "hours", HOURS)
    berlin = {"kind": "cron", "expr": "0 9 * * *", "timezone": "Europe/Berlin"}
    moved = {"exclude": ["de"], "when_excluded": "next_day"}
    for calendars, schedule, field in (
        ({"exclude": ["de", "fr"]}, berlin, "calendars.exclude.1"),
        ({"only": ["fr"]}, berlin, "calendars.only.0"),
        ({"exclude": ["hours"], "when_excluded": "next_day"}, berlin, "calendars.exclude.0"),
        (moved, {**berlin, "timezone": "Europe/Paris"}, "calendars.exclude.0"),
    ):
        with pytest.raises(BadValues) as refused:
            bed.jobs.create(a_job("refused", schedule=schedule, calendars=calendars))
        assert [error.field for error in refused.value.errors] == [field]
    job = bed.jobs.create(a_job("job", schedule=berlin, calendars=moved))
    with pytest.raises(Conflict, match="calendar de is named by job"):
        put(bed, "de", HOURS)
    assert bed.calendars.jobs_using("de", 5) == ["job"]
    bed.jobs.replace(a_job("job", schedule=berlin, calendars={"only": ["hours"]}), None)
    assert (bed.calendars.jobs_using("de", 5), bed.calendars.jobs_using("hours", 5)) == ([], ["job"])
    bed.calendars.delete("de", by=BY)
    bed.jobs.delete(job.job_id, None)
    bed.calendars.delete("hours", by=BY)


def test_jobs_are_read_as_their_calendars_leave_them(bed: StoreBed) -> None:
    """Cut where a version begins; what began before the window is left out."""
    lease = bed.lead()
    first = put(bed, "de", XMAS)
    daily = {"kind": "cron", "expr": "0 9 * * *", "timezone": "Europe/Berlin"}
    bed.planned_job(lease, "plain", schedule=daily)
    job = bed.planned_job(lease, "job", schedule=daily, calendars={"exclude": ["de"]})
    second = put(bed, "de", MORE)
    after = 20_810 * DAY

    def days(schedule: Schedule) -> list[int]:
        return [at // DAY - 20_810 for at in upcoming(schedule, after, 9)]

    for read in (bed.leader.job_histories(first.effective_from), bed.leader.histories_of(["job", "plain"], None)):
        by_id = {one.job_id: one for one in read}
        assert len(by_id["plain"].versions) == 1
        before, since = by_id["job"].versions
        assert (before.version, since.version, since.effective_from) == (1, 1, second.effective_from)
        assert days(before.schedule) == [0, 1, 4, 5, 6, 7, 8, 9, 10], "Christmas is left out"
        assert days(since.schedule) == [0, 1, 4, 5, 6, 7, 8, 10, 11], "New Year too"
    (later,) = bed.leader.histories_of(["job"], second.effective_from)
    assert days(later.versions[-1].schedule) == days(since.schedule)
    assert len(later.versions) == 1
    pages, _ = bed.leader.calendar_jobs("de", "", second.effective_from, 5)
    assert [days(one.versions[-1].schedule) for one in pages] == [days(since.schedule)]
    if bed.database is not None:
        for shown in (bed.jobs.get("job"), bed.jobs.list(JobFilter(), 5, None).items[0]):
            assert days(shown.schedule) == days(since.schedule), "what users see is the newest"
            assert definition_of(shown) == definition_of(job)


def test_of_a_job_that_moves_days_versions_that_ended_are_read_too(bed: StoreBed) -> None:
    """What an older version fired for a day is known after a takeover: the newer one moves it nowhere."""
    lease = bed.lead()
    put(bed, "de", XMAS)
    daily = {"kind": "cron", "expr": "0 9 * * *", "timezone": "Europe/Berlin"}
    moved = {"exclude": ["de"], "when_excluded": "next_day"}
    for job_id, calendars in (("moves", moved), ("skips", {"exclude": ["de"]})):
        bed.planned_job(lease, job_id, schedule=daily, calendars=calendars)
        edited, _ = bed.jobs.replace(a_job(job_id, schedule=daily, calendars=calendars, queue="other"), None)
        bed.leader.create_runs(lease, CreateRuns((), lease.now, planned=((job_id, edited.version),)))
    found = {one.job_id: one for one in bed.leader.job_histories(edited.effective_from + 1)}
    assert [job.version for job in found["moves"].versions] == [1, 2]
    assert [job.version for job in found["skips"].versions] == [2]


def test_a_set_of_jobs_is_planned_and_applied_with_its_calendars(sql_stores: StoreBed) -> None:
    assert sql_stores.database is not None
    sets, wanted = SqlJobSets(sql_stores.database), JobSet("file", (a_job("a", calendars={"exclude": ["de"]}),))
    for apply in (sets.plan, lambda asked: sets.apply(asked, None)):
        with pytest.raises(BadValues, match=r"jobs.0.calendars.exclude.0"):
            apply(wanted)
    put(sql_stores, "de", XMAS)
    sets.apply(wanted, None)
    assert sql_stores.calendars.jobs_using("de", 5) == ["a"]


def test_versions_are_kept_as_long_as_history(sql_stores: StoreBed) -> None:
    bed, lease = sql_stores, sql_stores.lead()
    assert bed.database is not None
    pruning = SqlPruning(bed.database)
    second = (put(bed, "de", XMAS), put(bed, "de", MORE))[1]
    put(bed, "fr", XMAS)
    bed.calendars.delete("fr", by=BY)
    deleted = pruning.scan(Past.CALENDAR_VERSIONS, second.effective_from, None, 10)
    assert deleted.may_go == (("fr", 1),)
    ended = pruning.scan(Past.CALENDAR_VERSIONS, second.effective_from + 1, None, 10).may_go
    assert ended == (("fr", 1), ("de", 1)), "the present version stays"
    assert pruning.prune(lease, Past.CALENDAR_VERSIONS, (*ended, ("de", 2)), second.effective_from + 1) == 2
    assert [one.version for one in bed.calendars.versions("de", 5, None).items] == [2]


def test_each_change_is_in_the_audit_log(sql_stores: StoreBed) -> None:
    bed = sql_stores
    assert bed.database is not None
    put(bed, "de", XMAS, "one")
    put(bed, "de", XMAS, "one")
    put(bed, "de", MORE, "two")
    bed.calendars.delete("de", by=AuditedChange("olga", "operator", "calendar.delete"))
    entries = SqlAuditLog(bed.database).list(AuditFilter(), 10, None).items
    told = [
        (e.action, e.subject, e.before and e.before["description"], e.after and e.after["description"]) for e in entries
    ]
    assert told == [
        ("calendar.delete", "de", "two", None),
        ("calendar.put", "de", "one", "two"),
        ("calendar.put", "de", None, "one"),
    ]
