"""Kubernetes CronJob manifests as jobs of one task that runs commands, or of the task that `celery call` sends. Pure.

Reads several documents, lists and what `kubectl get cronjobs -o yaml` prints. A pod is more than a command: what a
worker does not take over (image, volumes, rights) is named for each.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant
from scheduler_service.core.schedules.zones import zone
from scheduler_service.migrating.celery_call import celery_call
from scheduler_service.migrating.converted import CannotConvert, Converted, checked, job_id_of
from scheduler_service.migrating.kubernetes_cron import kubernetes_fires, kubernetes_spec

NOTES: Final = (
    "a CronJob starts a pod; here the worker runs the command, in its own file system and with its own rights",
    "a CronJob without startingDeadlineSeconds makes up for the newest missed time; so does misfire `fire_once`",
)
MOST_BYTES: Final = 1024 * 1024
_VERSIONS: Final = ("batch/v1", "batch/v1beta1")
_OVERLAPS: Final = {"Allow": "allow", "Forbid": "skip", "Replace": "cancel_running"}
_SHELLS: Final = ("/bin/sh", "sh", "/bin/bash", "bash")
_PREFIX: Final = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)", re.DOTALL)
_NAMED: Final = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_SPEC: Final = frozenset(
    {"schedule", "timeZone", "concurrencyPolicy", "suspend", "startingDeadlineSeconds", "jobTemplate"}
)
_HISTORY: Final = frozenset({"successfulJobsHistoryLimit", "failedJobsHistoryLimit", "ttlSecondsAfterFinished"})
_JOB: Final = frozenset({"template", "backoffLimit", "activeDeadlineSeconds", "completions", "parallelism"})
_POD: Final = frozenset({"containers", "initContainers", "restartPolicy", "activeDeadlineSeconds"})
# An API server fills these in by itself.
_DEFAULTS: Final = frozenset(
    {"dnsPolicy", "schedulerName", "securityContext", "terminationGracePeriodSeconds", "completionMode", "suspend"}
)
_CONTAINER: Final = frozenset({"name", "image", "command", "args", "env", "envFrom"})
_QUIET: Final = frozenset({"imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy"})
_ODD: Final = (TypeError, ValueError, AttributeError)  # a value of another type than the manifest's schema says
_RETRIES: Final = 6


def read_kubernetes(
    text: str, *, task: str | None, timezone: str, now: Instant, queue: str | None = None
) -> list[Converted]:
    """Every object of the file; BadValue where it holds no CronJob or is no YAML."""
    try:
        objects = list(_objects(yaml.safe_load_all(text)))
    except (yaml.YAMLError, RecursionError) as exc:
        raise BadValue("FILE", None, f"it is not YAML: {' '.join(str(exc).split())[:300]}") from exc
    if not any(isinstance(each, Mapping) and each.get("kind") == "CronJob" for each in objects):
        kinds = ", ".join(sorted({str(each.get("kind")) for each in objects if isinstance(each, Mapping)})) or "nothing"
        raise BadValue("FILE", None, f"it holds no CronJob but {kinds}: give manifests of kind CronJob")
    taken: set[str] = set()
    return [_entry(each, number, task, timezone, now, queue, taken) for number, each in enumerate(objects, 1)]


def _objects(documents: Iterable[Any]) -> Iterator[Any]:
    for document in documents:
        if isinstance(document, Mapping) and str(document.get("kind", "")).endswith("List"):
            yield from _objects(document.get("items") or [])
        elif document is not None:
            yield document


def _entry(
    held: Any, number: int, task: str | None, timezone: str, now: Instant, queue: str | None, taken: set[str]
) -> Converted:
    name = _name(held, number)
    try:
        if not isinstance(held, Mapping):
            raise CannotConvert("it is no object")
        if held.get("kind") != "CronJob":
            return Converted(name, left_out=f"it is a {held.get('kind')}, no CronJob")
        if held.get("apiVersion") not in _VERSIONS:
            raise CannotConvert(f"its apiVersion {held.get('apiVersion')!r} is not known: {', '.join(_VERSIONS)}")
        body, differences = _job(held, task, timezone, queue, taken)
    except CannotConvert as exc:
        return Converted(name, refused=str(exc))
    except _ODD as exc:
        return Converted(name, refused=f"it is no CronJob that Kubernetes would take: {exc}")
    text = _line(_object(held, "spec"))[0]
    converted, _ = checked(name, body, tuple(differences), now, kubernetes_fires(text, body["schedule"]))
    taken.add(str(body["job_id"]))
    if _object(held, "spec").get("suspend") and converted.body is not None:
        return Converted(name, converted.body, converted.differences, left_out="it is suspended there")
    return converted


def _name(held: Any, number: int) -> str:
    metadata = held.get("metadata") if isinstance(held, Mapping) else None
    known = metadata if isinstance(metadata, Mapping) else {}
    name = str(known.get("name") or known.get("generateName") or f"document {number}")
    return f"{known['namespace']}/{name}" if known.get("namespace") else name


def _job(
    held: Mapping[str, Any], task: str | None, timezone: str, queue: str | None, taken: set[str]
) -> tuple[dict[str, Any], list[str]]:
    spec, name = _object(held, "spec"), _name(held, 0)
    template = _object(_object(spec, "jobTemplate"), "spec")
    pod = _object(_object(template, "template"), "spec")
    schedule, differences = _schedule(spec, timezone)
    notes = _object(held, "metadata").get("annotations") or {}
    wanted = str(notes.get("itinerary/job-id") or name) if isinstance(notes, Mapping) else name
    job_id = job_id_of(wanted, taken, "cronjob")
    body: dict[str, Any] = {"job_id": job_id, **({"title": name} if name != job_id else {}), "schedule": schedule}
    body |= _command(_only_container(pod), task, queue, differences)
    body |= {"overlap": _overlap(spec)} | _deadline(spec) | _retries(template, differences) | _limit(template, pod)
    for where, known, part in (("its", _SPEC | _HISTORY, spec), ("its job's", _JOB | _HISTORY, template)):
        differences += _left(where, part, known | _DEFAULTS)
    return body, [*differences, *_left("its pod's", pod, _POD | _DEFAULTS)]


def _schedule(spec: Mapping[str, Any], timezone: str) -> tuple[dict[str, Any], list[str]]:
    text, named = _line(spec)
    differences: list[str] = []
    if named is None:
        differences = [
            f"it names no timeZone: the zone of the cluster's controller holds there, {timezone} here (--timezone)"
        ]
    try:
        meant = timezone if named is None else zone(str(named)).key
    except BadValue as exc:
        raise CannotConvert(f"its timeZone {named!r} is not known here") from exc
    schedule, more = kubernetes_spec(text, meant)
    return schedule, [*differences, *more]


def _line(spec: Mapping[str, Any]) -> tuple[str, Any]:
    """The line and the zone that is named, by a field or before the line."""
    text, named = str(spec.get("schedule") or "").strip(), spec.get("timeZone")
    prefixed = _PREFIX.fullmatch(text)
    return (prefixed[2], named or prefixed[1]) if prefixed else (text, named)


def _overlap(spec: Mapping[str, Any]) -> str:
    named = spec.get("concurrencyPolicy") or "Allow"
    if named not in _OVERLAPS:
        raise CannotConvert(f"its concurrencyPolicy {named!r} is not known: {', '.join(_OVERLAPS)}")
    return _OVERLAPS[named]


def _deadline(spec: Mapping[str, Any]) -> dict[str, Any]:
    seconds = _whole(spec, "startingDeadlineSeconds")
    return {} if seconds is None else {"misfire": {"policy": "skip", "grace": f"{seconds}s"}}


def _retries(template: Mapping[str, Any], differences: list[str]) -> dict[str, Any]:
    for count in ("completions", "parallelism"):
        if (_whole(template, count) or 1) > 1:
            raise CannotConvert(f"its {count} is {template[count]}: a run here is one command")
    limit = _whole(template, "backoffLimit")
    again = _RETRIES if limit is None else limit
    if not again:
        return {}
    differences.append(
        f"backoffLimit {again}: a failed pod is started again; here a failed run is retried, {again} times"
    )
    return {"retry": {"max_attempts": again + 1, "initial": "10s", "factor": 2, "max": "6m", "jitter": False}}


def _limit(template: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    limits = [_whole(part, "activeDeadlineSeconds") for part in (template, pod)]
    given = [seconds for seconds in limits if seconds]
    return {"timeout": f"{min(given)}s"} if given else {}


def _only_container(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    containers = pod.get("containers")
    if pod.get("initContainers"):
        raise CannotConvert("it has initContainers, which run before its command: put all into one script")
    if not isinstance(containers, list) or len(containers) != 1 or not isinstance(containers[0], Mapping):
        count = len(containers) if isinstance(containers, list) else 0
        raise CannotConvert(f"its pod has {count} containers: a run here is one command")
    return containers[0]


def _command(
    container: Mapping[str, Any], task: str | None, queue: str | None, differences: list[str]
) -> dict[str, Any]:
    environment, from_elsewhere = _environment(container)
    words = [_filled(word, environment, from_elsewhere) for word in _command_of(container)]
    if from_elsewhere:
        differences.append(f"Kubernetes fills in the environment {', '.join(from_elsewhere)}: set it on the worker")
    differences.append(f"its image {container.get('image')} is not used: the worker has to have the command")
    differences += _left("its container's", container, _CONTAINER | _QUIET)
    sent = celery_call(words)
    if sent is not None:
        return sent | ({"queue": queue} if queue else {})
    if task is None:
        raise CannotConvert("it runs a command: name your task that runs it, by --task")
    runs_shell = len(words) == 3 and words[0] in _SHELLS and words[1] == "-c"
    kwargs: dict[str, Any] = {"command": words[2] if runs_shell else shlex.join(words), "stdin": ""}
    if environment:
        kwargs["env"] = environment
        differences.append(f"it sets {', '.join(environment)} for the command; the task is given them as `env`")
    return {"task": task, "kwargs": kwargs, **({"queue": queue} if queue else {})}


def _command_of(container: Mapping[str, Any]) -> list[str]:
    command, arguments = container.get("command") or [], container.get("args") or []
    if not command:
        raise CannotConvert(f"its command is that of its image {container.get('image')}: write it as `command`")
    words = [*command, *arguments] if isinstance(command, list) and isinstance(arguments, list) else []
    if not words or not all(isinstance(word, str) for word in words):
        raise CannotConvert("its command and args are no lists of texts")
    return [str(word) for word in words]


def _environment(container: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The values that stand there, and the names of those that do not."""
    held: dict[str, str] = {}
    elsewhere = ["of envFrom"] if container.get("envFrom") else []
    for each in container.get("env") or []:
        if not isinstance(each, Mapping) or not isinstance(each.get("value", ""), str):
            raise CannotConvert("its env is no list of names and texts")
        if each.get("valueFrom"):
            elsewhere.append(str(each.get("name")))
        else:
            held[str(each.get("name"))] = _filled(each.get("value", ""), held, [])
    return held, elsewhere


def _filled(text: str, environment: Mapping[str, str], elsewhere: list[str]) -> str:
    """The text with `$(NAME)` filled in as Kubernetes does; unknown names stay as they are."""

    def of(found: re.Match[str]) -> str:
        if found[1] in elsewhere:
            raise CannotConvert(f"$({found[1]}) in its command is filled in from a secret or a config map")
        return "$" if found[1] is None else environment.get(found[1], found[0])

    return _NAMED.sub(of, text)


def _left(where: str, part: Mapping[str, Any], known: frozenset[str]) -> list[str]:
    """Name the keys that have no place here, in one sentence."""
    named = sorted(str(key) for key in part if key not in known and part[key] not in (None, {}, [], False))
    return [f"{where} {', '.join(named)}: not carried over, see to it where the worker runs"] if named else []


def _object(part: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = part.get(name)
    if not isinstance(found, Mapping):
        raise CannotConvert(f"it has no {name}")
    return found


def _whole(part: Mapping[str, Any], name: str) -> int | None:
    value = part.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise CannotConvert(f"its {name} is {value!r}: give a whole number")
    return value
