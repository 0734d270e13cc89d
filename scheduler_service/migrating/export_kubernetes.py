"""Jobs as Kubernetes CronJob manifests: commands as they are, tasks by `celery call`. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from itinerary.protocol.instants import SECOND, Duration, Instant, format_duration
from scheduler_service.core.model import Job, MisfirePolicy, Overlap
from scheduler_service.migrating.celery_call import sending_command
from scheduler_service.migrating.cron_lines import CannotSay, cron_line, time_differences
from scheduler_service.migrating.exported import (
    Exported,
    Refused,
    check_arguments,
    environment_of,
    export_each,
    policy_differences,
)

_RULES: Final = {"dst_gap": "skip", "dst_fold": "both"}  # what its controller's cron library does
_POLICIES: Final = {Overlap.ALLOW: "Allow", Overlap.SKIP: "Forbid", Overlap.CANCEL_RUNNING: "Replace"}
_LONGEST_NAME: Final = 52
_LEAST_DEADLINE: Final = 10
_FOREIGN: Final = re.compile(r"[^a-z0-9]+")
_KNOWN: Final = frozenset({"command", "stdin", "env"})


@dataclass(frozen=True, slots=True)
class Cluster:
    """The two facts that manifests need and no job has: the image, and the app that its `celery` knows."""

    image: str
    app: str | None = None


def export_kubernetes(
    jobs: Sequence[Job], cluster: Cluster, now: Instant, *, nearest: bool
) -> tuple[str, list[Refused]]:
    """The manifests, and the jobs that have none."""
    taken: set[str] = set()
    done, refused = export_each(jobs, lambda job: _manifest(job, cluster, taken, now), nearest=nearest)
    parts = []
    for each in done:
        differences = "".join(f"# differs: {line}\n" for line in each.differences)
        parts.append(f"---\n{differences}{yaml.safe_dump(each.said, sort_keys=False, allow_unicode=True, width=110)}")
    return "".join(parts) or "# no job\n", refused


def _manifest(job: Job, cluster: Cluster, taken: set[str], now: Instant) -> Exported:
    check_arguments(job)
    line = cron_line(job, now)
    if line.has_both_days and line.both_days:
        raise CannotSay(f"{line.expr} runs where both of its days match, and a CronJob on either")
    differences = [*time_differences(job, line, _RULES, now), *policy_differences(job, now, keeps_one=False)]
    runs_command = isinstance(job.kwargs.get("command"), str) and not job.args and not set(job.kwargs) - _KNOWN
    container, more = _command(job, cluster) if runs_command else _call(job, cluster)
    spec: dict[str, Any] = {"schedule": line.expr, "timeZone": line.timezone, **_policy(job, differences)}
    spec |= {"concurrencyPolicy": _concurrency(job) if runs_command else "Allow"}
    spec |= {"suspend": True} if job.paused else {}
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "job", "image": cluster.image, **container}]}}
    limit = _limit(job.timeout, differences) if runs_command and job.timeout is not None else {}
    spec["jobTemplate"] = {"spec": {"backoffLimit": 0, **limit, "template": pod}}
    name = _name(job.job_id, taken)
    taken.add(name)
    metadata = {"name": name, "annotations": {"itinerary/job-id": job.job_id}}
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": spec}
    return Exported(job, body, (*differences, *more))


def _limit(timeout: Duration, differences: list[str]) -> dict[str, int]:
    """How long a pod may run, in whole seconds."""
    if timeout % SECOND:
        differences.append(f"timeout {format_duration(timeout)}: a CronJob counts whole seconds, rounded up")
    return {"activeDeadlineSeconds": -(-timeout // SECOND)}


def _policy(job: Job, differences: list[str]) -> dict[str, int]:
    """How late a start may be; a CronJob without a deadline makes up for the newest missed time."""
    if job.misfire.policy is not MisfirePolicy.SKIP:
        return {}
    grace = job.misfire.grace // SECOND
    if grace < _LEAST_DEADLINE:
        differences.append(f"misfire skip after {grace} s: a CronJob's controller needs {_LEAST_DEADLINE} s")
    return {"startingDeadlineSeconds": max(_LEAST_DEADLINE, grace)}


def _concurrency(job: Job) -> str:
    if job.overlap not in _POLICIES:
        raise CannotSay(f"overlap {job.overlap.value}: a CronJob keeps no queue of its own")
    return _POLICIES[job.overlap]


def _command(job: Job, cluster: Cluster) -> tuple[dict[str, Any], list[str]]:
    if job.kwargs.get("stdin"):
        raise CannotSay("it feeds its command by `stdin`, which a container has not")
    named = [{"name": name, "value": value} for name, value in environment_of(job).items()]
    return {"command": ["/bin/sh", "-c", job.kwargs["command"]], **({"env": named} if named else {})}, []


def _call(job: Job, cluster: Cluster) -> tuple[dict[str, Any], list[str]]:
    if cluster.app is None:
        raise CannotSay(f"{job.task} is a Celery task: --celery-app MODULE:APP has the pod send it")
    words, differences = sending_command(job, cluster.app)
    return {"command": words}, differences


def _name(job_id: str, taken: set[str]) -> str:
    plain = _FOREIGN.sub("-", job_id.lower()).strip("-")[:_LONGEST_NAME].strip("-") or "job"
    number, found = 2, plain
    while found in taken:
        number, found = number + 1, f"{plain[: _LONGEST_NAME - len(str(number)) - 1].rstrip('-')}-{number}"
    return found
