"""Which of the leader's writes share a transaction. Owns the order in which they may; carries nothing out."""

from itertools import groupby
from typing import Any

from scheduler_service.core.leader.commands import Apply, MakeRuns, ReadJobs, StoreEffect

_MOST_JOBS = 1000
_MOST_TRANSITIONS = 2000
_SHARING = (MakeRuns, Apply)
_SHARED_FROM, _SHARED_TO = 50, 1_000

Group = list[StoreEffect]


def grouped(effects: list[StoreEffect]) -> list[Group]:
    """Neighbouring writes of many rows together, as far as a transaction bears it; everything else by itself.

    What few rows are waited for is told sooner without the others.
    """
    groups: list[Group] = []
    for may_share, run in groupby(effects, lambda effect: isinstance(effect, _SHARING)):
        neighbours = list(run)
        if not may_share or sum(map(_rows, neighbours)) < _SHARED_FROM:
            groups += [[effect] for effect in neighbours]
            continue
        groups.append([])
        for effect in neighbours:
            if groups[-1] and not _may_join(groups[-1], effect):
                groups.append([])
            groups[-1].append(effect)
    return groups


def _may_join(group: Group, effect: StoreEffect) -> bool:
    if sum(map(_rows, group)) + _rows(effect) > _SHARED_TO:
        return False
    # Jobs are locked in the order of their ids; those of two edits would come in any order, as others lock them.
    if _edits(effect) and any(map(_edits, group)):
        return False
    # Done again after a lost answer, a row that was made and folded away together would be made and counted once more.
    folds = isinstance(effect, Apply) and any(change.fold is not None for change in effect.transitions)
    return not (folds and any(isinstance(one, MakeRuns) for one in group))


def _edits(effect: StoreEffect) -> bool:
    return isinstance(effect, MakeRuns) and bool(effect.planned)


def _rows(effect: Any) -> int:
    return len(effect.runs) if isinstance(effect, MakeRuns) else len(effect.transitions)


def merged(effects: list[StoreEffect]) -> list[StoreEffect]:
    """The same effects in fewer transactions: neighbouring Applies are one, and so are ReadJobs, and edits."""
    out: list[StoreEffect] = []
    for effect in effects:
        match out[-1] if out else None, effect:
            case Apply() as last, Apply() if len(last.transitions) + len(effect.transitions) <= _MOST_TRANSITIONS:
                out[-1] = Apply(
                    last.transitions + effect.transitions,
                    last.published + effect.published,
                    last.late + effect.late,
                    last.cancels + effect.cancels,
                    effect.position or last.position,
                    effect.judged_until if effect.judged_until is not None else last.judged_until,
                )
            case ReadJobs() as last, ReadJobs() if len(last.job_ids) + len(effect.job_ids) <= _MOST_JOBS:
                out[-1] = ReadJobs(tuple(dict.fromkeys((*last.job_ids, *effect.job_ids))))
            case MakeRuns() as last, MakeRuns() if _may_be_one(last, effect):
                out[-1] = MakeRuns(
                    last.runs + effect.runs,
                    effect.cursor,
                    last.retracts + effect.retracts,
                    last.gaps + effect.gaps,
                    last.planned + effect.planned,
                )
            case _:
                out.append(effect)
    return out


def _may_be_one(first: MakeRuns, second: MakeRuns) -> bool:
    """Whether both plan edits, of different jobs: an edit takes back what an earlier one of its job made."""
    if not (first.planned and second.planned) or first.set_back or second.set_back:
        return False
    both = [job_id for job_id, _ in (*first.planned, *second.planned)]
    return len(set(both)) == len(both) <= _MOST_JOBS and _rows(first) + _rows(second) <= _SHARED_TO
