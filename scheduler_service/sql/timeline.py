"""TimelineStore in SQL: each statement scans a bounded piece of one index of runs by scheduled time. Only reads."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    Text,
    and_,
    any_,
    cast,
    column,
    func,
    literal,
    literal_column,
    select,
    true,
    union_all,
)
from sqlalchemy.sql.selectable import CompoundSelect

from itinerary.protocol.instants import Instant
from itinerary.protocol.json_text import is_storable
from scheduler_service.core.run_state import FINAL, RunState
from scheduler_service.ports.history import Total
from scheduler_service.ports.stores import RunFilter
from scheduler_service.ports.timeline import (
    MOST_COUNTED,
    RARE_ENDS,
    Cell,
    Counts,
    Ends,
    JobEnds,
    LaneKind,
    LaneRun,
    Span,
    TimelineStore,
)
from scheduler_service.sql.batch import PARAMETER, Batch
from scheduler_service.sql.column_types import InstantColumn
from scheduler_service.sql.database import PLANNED_EACH_TIME, Database
from scheduler_service.sql.dialect import Dialect
from scheduler_service.sql.index_states import ended_as
from scheduler_service.sql.job_ends import ends_of_job
from scheduler_service.sql.tables import IS_TRACKED, among, runs

OF_A_PIECE: Final = 1_000
_PIECES: Final = 100
_EARLIER: Final = 10_000
_SPREAD: Final = 2_654_435_761
_NEIGHBOURS: Final = 4
_R: Final = runs.c
_LANES: Final = {LaneKind.JOB: _R.job_id, LaneKind.QUEUE: _R.queue, LaneKind.WORKER: _R.worker, LaneKind.TASK: _R.task}
# No name is empty. NULL would not be found by a hash join.
_NOBODY: Final = literal_column("''", Text)
_BY_TIME: Final = (_R.scheduled_at.desc(), _R.id.desc())
_EACH: Final = {PLANNED_EACH_TIME: True}
_PIECE: Final = Batch(since=InstantColumn, until=InstantColumn)
# Written out: what a statement names in the second level below it, SQLAlchemy would select from once more.
_BOUNDS: Final = (
    literal_column(f"{PARAMETER}.since", InstantColumn), literal_column(f"{PARAMETER}.until", InstantColumn)
)  # fmt: skip
_NOTHING: Final[Mapping[str, str]] = {}
Conditions = Sequence[ColumnElement[bool]]
Columns = Sequence[ColumnElement[Any]]
Bound = Instant | ColumnElement[Instant]


class SqlTimelineStore(TimelineStore):
    """TimelineStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def size(self, span: Span, wanted: RunFilter) -> Total:
        if not _can_be(wanted):
            return Total(0, False)
        with self._database.read() as connection:
            found = _number(connection, _ids(span.since, span.until, wanted, MOST_COUNTED + 1))
            if found <= MOST_COUNTED:
                return Total(found, False)
            counted = _counted_ids(_ids(*_BOUNDS, wanted, OF_A_PIECE)).scalar_subquery()
            of_pieces = select(counted).select_from(_PIECE.rows(self._database.dialect))
            numbers = connection.execute(of_pieces, _pieces(span), execution_options=_EACH).scalars().all()
        return Total(sum(numbers), any(number >= OF_A_PIECE for number in numbers))

    def few(self, by: LaneKind, span: Span, wanted: RunFilter, most: int) -> list[LaneRun] | None:
        if not _can_be(wanted):
            return []
        columns = (_LANES[by].label("lane"), _R.run_id, _R.state, _R.scheduled_at, _R.started_at, _R.finished_at)
        within = _matching(columns, span.since, span.until, wanted, MOST_COUNTED)
        with self._database.read() as connection:
            found = list(connection.execute(within.limit(most + 1), execution_options=_EACH))
            if len(found) > most:
                return None
            for earlier in (_running_from_before(columns, span, wanted), _ended_within(columns, span, wanted)):
                found += connection.execute(earlier.limit(most), execution_options=_EACH)
        return [LaneRun(lane, run_id, RunState(state), *times) for lane, run_id, state, *times in found]

    def counts(
        self, by: LaneKind, span: Span, wanted: RunFilter, *, first: int, lanes: int, among: Sequence[str | None] = ()
    ) -> Counts:
        scan = _matching(self._counted(by, span, wanted), span.since, span.until, wanted, MOST_COUNTED)
        if among:
            counted = scan.subquery("counted")
            scan = select(counted).where(counted.c.lane.in_([lane or "" for lane in among]))
        return self._cells(scan, wanted, first, lanes)

    def sample(self, by: LaneKind, span: Span, wanted: RunFilter, one_of: int, *, first: int, lanes: int) -> Counts:
        ids = _of_each_piece(_ids(*_BOUNDS, wanted, OF_A_PIECE), self._database.dialect)
        # Spread over all runs: those of one minute have neighbouring ids, and a job's may come at equal distances.
        # A few neighbours together, since they lie in one page of the table.
        chosen = select(ids.c.id).where(ids.c.id // _NEIGHBOURS * _SPREAD // 65_536 % one_of == 0)
        scan = select(*self._counted(by, span, wanted)).where(self._is_one_of(chosen), _judged(wanted))
        found = self._cells(scan, wanted, first, lanes, _pieces(span))
        cells = [Cell(cell.lane, cell.part, cell.state, cell.number * one_of) for cell in found.cells]
        return Counts(cells, found.lanes, found.runs * one_of)

    def ends(self, job_id: str, edges: Sequence[Instant], most: int) -> JobEnds:
        if not is_storable(job_id):
            return JobEnds([Ends()] * (len(edges) - 1))
        with self._database.read() as connection:
            return ends_of_job(connection, job_id, edges, most)

    def _is_one_of(self, ids: Select[Any]) -> ColumnElement[bool]:
        if self._database.dialect is Dialect.SQLITE:
            return _R.id.in_(ids)
        # As an array, PostgreSQL sorts them and finds neighbours in one search: half the time of a join.
        return _R.id == any_(func.array(ids.scalar_subquery()))

    def _counted(self, by: LaneKind, span: Span, wanted: RunFilter) -> Columns:
        since, width = literal(span.since, BigInteger), literal(span.width, BigInteger)
        part = (_microseconds(_R.scheduled_at, self._database.dialect) - since) // width
        return [func.coalesce(_LANES[by], _NOBODY).label("lane"), part.label("part"), _state(wanted).label("state")]

    def _cells(
        self, scan: Select[Any], wanted: RunFilter, first: int, lanes: int, given: Mapping[str, str] = _NOTHING
    ) -> Counts:
        if not _can_be(wanted):
            return Counts((), 0, 0)
        found = _of_lanes(scan, first, lanes)
        with self._database.read() as connection:
            rows = connection.execute(found, given, execution_options=_EACH).all()
        cells = [Cell(lane or None, part, RunState(state), n) for lane, part, state, n, _, _ in rows]
        return Counts(cells, rows[0].lanes if rows else 0, rows[0].runs if rows else 0)


def _can_be(wanted: RunFilter) -> bool:
    return is_storable(f"{wanted.job_id}{wanted.queue}")


def _ended(wanted: RunFilter) -> frozenset[RunState]:
    """The states of the filter, if all are rare ends: an index finds those."""
    states = frozenset(wanted.states)
    return states if states <= RARE_ENDS else frozenset()


def _state(wanted: RunFilter) -> ColumnElement[str]:
    """The state as the index has it that the filter is found by."""
    return _R.standing if _ended(wanted) else _R.state


def _microseconds(column: ColumnElement[Any], dialect: Dialect) -> ColumnElement[int]:
    if dialect is Dialect.SQLITE:
        return cast(column, BigInteger)
    return cast(func.date_part(literal_column("'epoch'"), column) * literal_column("1e6"), BigInteger)


def _of_lanes(scan: Select[Any], first: int, lanes: int) -> Select[Any]:
    """Count the runs by lane, part and state, of the lanes from the `first` on; those with most runs come first."""
    # Read once, counted twice: by lane, and then in parts for the few lanes that are asked for.
    run = scan.cte("scan").c
    sums = select(run.lane, func.count().label("n")).group_by(run.lane).cte("sums")
    place = func.row_number().over(order_by=(sums.c.n.desc(), sums.c.lane)).label("place")
    of_all = (func.count().over().label("lanes"), cast(func.sum(sums.c.n).over(), BigInteger).label("runs"))
    ranked = select(sums.c.lane, place, *of_all).cte("ranked")
    chosen = select(*ranked.c).where(ranked.c.place > first, ranked.c.place <= first + lanes).cte("chosen")
    keys = (run.lane, run.part, run.state, chosen.c.place, chosen.c.lanes, chosen.c.runs)
    return (
        select(run.lane, run.part, run.state, func.count(), chosen.c.lanes, chosen.c.runs)
        .join(chosen, run.lane == chosen.c.lane)
        .group_by(*keys)
        .order_by(chosen.c.place, run.part, run.state)
    )


def _narrowed(since: Bound, until: Bound, wanted: RunFilter) -> list[Conditions]:
    """Return the conditions that an index finds, for each piece of an index to scan."""
    begin, end = (literal(at, InstantColumn) if isinstance(at, int) else at for at in (since, until))
    times = [_R.scheduled_at >= begin, _R.scheduled_at < end]
    if wanted.job_id is not None:
        named: list[list[ColumnElement[bool]]] = [[_R.job_id == wanted.job_id]]
    else:
        queues = [wanted.queue] if wanted.queue is not None else wanted.queues
        named = [[_R.queue == queue] for queue in queues] or [[]]
    ended: list[list[ColumnElement[bool]]] = [[ended_as(state)] for state in sorted(_ended(wanted))] or [[]]
    return [[*state, *name, *times] for state in ended for name in named]


def _judged(wanted: RunFilter) -> ColumnElement[bool]:
    """Return the whole filter, which is applied to the rows that were scanned."""
    equal = ((_R.job_id, wanted.job_id), (_R.queue, wanted.queue), (_R.owner, wanted.owner))
    states = [among(_state(wanted), frozenset(wanted.states))] if wanted.states else []
    queues = [_R.queue.in_(wanted.queues)] if wanted.queues else []
    return and_(true(), *(column == value for column, value in equal if value is not None), *states, *queues)


def _matching(columns: Columns, since: Instant, until: Instant, wanted: RunFilter, most: int) -> Select[Any]:
    """Select the matching ones of the newest `most` runs that were scheduled in this time."""
    judged = [*columns, _judged(wanted).label("matches")]
    return _only([_scan(judged, part, most) for part in _narrowed(since, until, wanted)])


def _ended_within(columns: Columns, span: Span, wanted: RunFilter) -> Select[Any]:
    """Select the matching ones of the last runs scheduled before the span that ended after its beginning."""
    ran = and_(_R.finished_at > span.since, _R.started_at < span.until, among(_R.state, FINAL), _judged(wanted))
    judged = [*columns, ran.label("matches")]
    return _only([_scan(judged, part, _EARLIER) for part in _narrowed(0, span.since, wanted)])


def _running_from_before(columns: Columns, span: Span, wanted: RunFilter) -> Select[Any]:
    """Select the matching runs scheduled before the span that run still."""
    running = (IS_TRACKED, among(_R.state, frozenset({RunState.RUNNING})), _R.scheduled_at < span.since)
    return select(*columns).where(*running, _R.started_at < span.until, _judged(wanted))


def _pieces(span: Span) -> Mapping[str, str]:
    """Return the parameter of a statement that has the pieces of the span as rows."""
    return next(_PIECE.chunks(replace(span, parts=_PIECES).each()))


def _of_each_piece(ids: Select[Any], dialect: Dialect) -> Subquery:
    """Select the `ids` of every piece."""
    piece = _PIECE.rows(dialect)
    if dialect is Dialect.POSTGRESQL:
        lateral = ids.lateral("of_piece")
        return select(lateral.c.id).select_from(piece.join(lateral, true())).subquery("ids")
    scan = ids.subquery("scan")  # SQLite knows no LATERAL, but the arguments of its table functions are
    listed = select(func.json_group_array(scan.c.id)).scalar_subquery()
    each = func.json_each(listed).table_valued(column("value", BigInteger), name="of_piece")
    return select(each.c.value.label("id")).select_from(piece.join(each, true())).subquery("ids")


def _ids(since: Bound, until: Bound, wanted: RunFilter, most: int) -> Select[Any]:
    """Select the ids of the newest runs in this time, which an index gives without the table's rows."""
    return _together([_scan([_R.id.label("id")], part, most) for part in _narrowed(since, until, wanted)])


def _number(connection: Connection, ids: Select[Any]) -> int:
    return int(connection.execute(_counted_ids(ids), execution_options=_EACH).scalar_one())


def _counted_ids(ids: Select[Any]) -> Select[Any]:
    return select(func.count()).select_from(ids.subquery("scan"))


def _scan(columns: Columns, part: Conditions, most: int) -> Select[Any]:
    # Ordered as the index, so that no planner scans the table because of the limit.
    return select(*columns).where(*part).order_by(*_BY_TIME).limit(most)


def _only(scans: Sequence[Select[Any]]) -> Select[Any]:
    """Select what matches in these scans."""
    scan = _together(scans).subquery("scanned")
    return select(*(column for column in scan.c if column.name != "matches")).where(scan.c.matches)


def _together(scans: Sequence[Select[Any]]) -> Select[Any]:
    if len(scans) == 1:
        return scans[0]
    united: CompoundSelect[Any] = union_all(*(select(scan.subquery()) for scan in scans))
    return select(united.subquery("united"))
