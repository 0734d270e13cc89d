"""Whether the limits that jobs and runs name exist, and have the keys that are given. Pure.

The store asks it in the transaction that saves the job or the run.
"""

from collections.abc import Iterator, Mapping, Sequence

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.limits import JobLimit, LimitUse
from itinerary.protocol.run_request import MOST_ERRORS
from scheduler_service.core.model import Job, NewRun


def named_limits(run: NewRun) -> Sequence[LimitUse]:
    """The limits that are judged: a run again keeps those of the first run, as they were."""
    return run.limits if run.retry_of is None else ()


def limit_errors(named: Sequence[LimitUse | JobLimit], known: Mapping[str, bool]) -> Iterator[BadValue]:
    """The errors of limits that do not exist, or have or lack keys; `known` says of each whether it is per key."""
    for place, (name, key) in enumerate(named):
        per_key = known.get(name)
        if per_key is None:
            rule = f"no limit has this name; create it with `itinerary limits set {name} --concurrency 5`"
            yield BadValue(f"limits.{place}", name, rule)
        elif per_key and key is None:
            yield BadValue(f"limits.{place}.key", None, f"limit {name} counts by key; give the key of this one")
        elif not per_key and key is not None:
            yield BadValue(f"limits.{place}.key", key, f"limit {name} does not count by key; leave the key out")


def limits_named(job: Job | None) -> Sequence[JobLimit]:
    """The limits that a current job names; none for one that is deleted, or not there."""
    return () if job is None or job.deleted else job.limits


def refuse_limits(saved: Sequence[tuple[str, Job]], known: Mapping[str, bool]) -> None:
    """Raise BadValues for the limits of jobs that are saved, each job with its place in the request."""
    found = [(place, error) for place, job in saved for error in limit_errors(limits_named(job), known)]
    if found:
        raise BadValues([error.under(place) if place else error for place, error in found[:MOST_ERRORS]])
