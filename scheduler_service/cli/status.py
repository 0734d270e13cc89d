"""`itinerary status`: the leader and its view; status 1 if nobody leads and answers, or it cannot dispatch."""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from scheduler_service.cli.connect import open_client, started_here

Json = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
_TAKEOVER: Final = timedelta(seconds=30)
_TIMES: Final = frozenset({"since", "last_rebuild_at", "last_iteration_at", "oldest_due_at"})
_WARNED: Final = ("leader_without_redis", "other_than_leaders")
_IN_THE_SENTENCE: Final = frozenset({"leader", "last_leader", "last_heard_at", "leader_answers", *_WARNED})


def status(as_json: Json = False) -> None:
    """Show the leader and its view; status 1 if nobody leads and answers, or it cannot dispatch."""
    from scheduler_service.cli.output import print_fields, print_json, when

    with open_client() as client:
        seen = client.status()
        processes = _processes(client.base_url)
    if as_json:
        print_json({**seen, "processes": processes} if processes else seen)
    else:
        lines = [(name, when(value) if name in _TIMES else value) for name, value in seen.items()]
        print_fields(
            [
                ("api", client.base_url),
                ("leader", leader_text(seen)),
                *((name.replace("_", " "), value) for name, value in lines if name not in _IN_THE_SENTENCE),
                ("processes", ", ".join(map(_process_text, processes))),
            ]
        )
    for sentence in [*redis_warnings(seen), *zone_warnings(seen)]:
        print(f"itinerary: {sentence}", file=sys.stderr)
    if not seen["leader_answers"] or seen.get("leader_without_redis"):
        sys.exit(1)


def leader_text(seen: Mapping[str, Any]) -> str:
    """Name the leader and its last heartbeat, or say that nobody leads."""
    if seen["last_leader"] is None:
        return "nobody leads, and nobody ever did: start a leader with `itinerary leader`"
    last_seen = _ago(seen["last_heard_at"])
    if seen["leader"] is None:
        return f"nobody leads; the last was {seen['last_leader']}, last seen {last_seen}"
    if not seen["leader_answers"]:
        text = f"{seen['leader']} holds the lease, last seen {last_seen}, but does not answer"
        return f"{text}: it has just taken over, ask again in some seconds" if _is_new(seen["since"]) else text
    return f"{seen['leader']}, last seen {last_seen}"


def _is_new(since: str | None) -> bool:
    """Whether a leader that leads since then may still be reading what there is."""
    return since is not None and datetime.now(UTC) - datetime.fromisoformat(since) < _TAKEOVER


def redis_warnings(seen: Mapping[str, Any]) -> list[str]:
    """Return warnings if the leader cannot reach Redis or the broker, or the API uses others."""
    from scheduler_service.core.redis_marks import SAME_REDIS

    found = []
    if seen.get("leader_without_redis"):
        found.append(
            "the leader cannot reach Redis or its broker and dispatches nothing; check its ITINERARY_REDIS_URL and "
            "ITINERARY_BROKER_URL, and the network between"
        )
    if seen.get("other_than_leaders"):
        found.append(f"the API uses {seen['other_than_leaders']} than the leader; {SAME_REDIS}")
    return found


def zone_warnings(seen: Mapping[str, Any]) -> list[str]:
    """Return warnings if hosts of an installation have zone rules other than those that the leader plans by."""
    leader, api, standby = (seen.get(name) for name in ("zone_rules", "zone_rules_api", "zone_rules_standby"))
    cure = "install one version of tzdata on every host, and restart; `itinerary zones diff` lists what changes"
    found = []
    if leader is not None and api != leader:
        found.append(f"the API's host has zone rules {api}, but the leader plans by {leader}; {cure}")
    if standby is not None:
        found.append(f"a standby has zone rules {standby}, but the leader plans by {leader}; {cure}")
    return found


def _ago(text: str) -> str:
    from itinerary.protocol.instants import from_datetime, parse_instant
    from scheduler_service.core.explain.relative import rough

    passed = rough(from_datetime(datetime.now(UTC)) - parse_instant(text))
    return "less than a second ago" if passed is None else f"{passed} ago"


def _processes(api_url: str) -> list[Mapping[str, Any]]:
    """Return the processes of the `itinerary up` on this machine that this API belongs to."""
    run = started_here()
    parts = run.get("parts")
    if run.get("api_url") != api_url or not isinstance(parts, dict):
        return []
    return [{"name": name, **part} for name, part in parts.items() if isinstance(part, dict)]


def _process_text(part: Mapping[str, Any]) -> str:
    text = part["name"] if part.get("pid") is None else f"{part['name']} pid {part['pid']}"
    return text if part.get("state") == "ready" else f"{text} ({part.get('state')})"
