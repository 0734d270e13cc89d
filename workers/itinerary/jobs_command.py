"""`python -m itinerary jobs plan|apply MODULE:APP`: the jobs declared beside an app's tasks, applied over HTTP.

Owns the call and its text. Promises that exactly the plan shown is applied, or nothing, and that an error of the
service names file and line.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TextIO

from itinerary.apps.loading import load_app
from itinerary.client.sync import Client
from itinerary.client.transport import ApiError, NoAnswer
from itinerary.jobs import Body, collect, placed
from itinerary.protocol.errors import BadValue, ItineraryError

_URL: Final = "ITINERARY_API_URL"
_LONGEST: Final = 200
_NOT_SHOWN: Final = ("kind", "day_match", "dst_gap", "dst_fold")


def jobs_parser() -> argparse.ArgumentParser:
    """The options of both commands."""
    parser = argparse.ArgumentParser(
        prog="python -m itinerary jobs", description="Apply the jobs that are declared beside an app's tasks."
    )
    parser.add_argument("action", choices=["plan", "apply"], help="show what would change, or also change it")
    parser.add_argument("app", metavar="MODULE:APP", help="your Celery app, as `celery -A` takes it")
    parser.add_argument("--url", help=f"the service, such as http://127.0.0.1:8080; default {_URL}")
    parser.add_argument("--token", help="a token of the service; default ITINERARY_API_TOKEN")
    parser.add_argument("--source", help="the owner of the jobs; the module's name by default")
    parser.add_argument(
        "--no-prune", action="store_true", help="keep jobs of this source that the app does not declare"
    )
    parser.add_argument("--take-over", action="store_true", help="take over jobs that belong to another source")
    parser.add_argument("--check", action="store_true", help="plan, for CI: status 1 if anything would change")
    parser.add_argument("-y", "--yes", action="store_true", help="apply without asking")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    return parser


def run_jobs(asked: argparse.Namespace, out: TextIO) -> int:
    """Plan, show, ask and apply; return the exit status."""
    url = asked.url or os.environ.get(_URL)
    if not url:
        raise BadValue("--url", None, f"name the service, such as http://127.0.0.1:8080, or set {_URL}")
    bodies = collect(load_app(asked.app))
    if not bodies:
        print(f"itinerary: {asked.app} declares no job; are their modules imported?", file=sys.stderr)
    with Client(url, token=asked.token or os.environ.get("ITINERARY_API_TOKEN") or None) as client:
        try:
            return _carried_out(client, asked, bodies, out)
        except ApiError as exc:
            raise ItineraryError(placed(str(exc), bodies)) from exc
        except NoAnswer as exc:
            raise ItineraryError(f"{exc}; start the service there, or name another by --url or {_URL}") from exc


def _carried_out(client: Client, asked: argparse.Namespace, bodies: Sequence[Body], out: TextIO) -> int:
    source = asked.source or asked.app.partition(":")[0]
    wanted: dict[str, Any] = {"source": source, "jobs": bodies, "take_over": asked.take_over}
    plan = client.apply_jobs(**wanted, prune=not asked.no_prune, dry_run=True)
    if not asked.json:
        print("\n".join(plan_lines(plan)), file=out)
    if asked.source is None and not asked.no_prune:
        _refuse_anothers(plan)
    differs = bool(plan["added"] or plan["changed"] or plan["removed"])
    if asked.action == "apply" and differs:
        if not asked.yes:
            _ask()
        plan = client.apply_jobs(**wanted, prune=bool(plan["removed"]), plan_version=plan["plan_version"])
        if not asked.json:
            print("applied", file=out)
    if asked.json:
        print(json.dumps(dict(plan), indent=2, ensure_ascii=True), file=out)
    return int(asked.check and differs)


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """A line for each job, its changed fields below it, and a line that counts."""
    lines = [f"+ {entry['job_id']}  {_in_short(entry['job'])}" for entry in plan["added"]]
    for entry in plan["changed"]:
        lines.append(f"~ {entry['job_id']}  version {entry['version']}")
        lines += [
            f"    {change['field']}: {_shown(change['before'])} -> {_shown(change['after'])}"
            for change in entry["changes"]
        ]
    lines += [f"- {entry['job_id']}  {_in_short(entry['job'])}" for entry in plan["removed"]]
    lines += [f"= {job_id}  is not declared; it stays" for job_id in plan["left"]]
    lines += [f"warning: {warning['job_id']}: {warning['msg']}" for warning in plan["warnings"]]
    counts = [(len(plan[name]), name) for name in ("added", "changed", "removed")]
    message = ", ".join(f"{count} {name}" for count, name in counts if count) or "nothing to change"
    return [_on_one_line(line) for line in [*lines, f"{plan['source']}: {message}, {plan['unchanged']} as they are"]]


def _in_short(job: Mapping[str, Any]) -> str:
    spec = {name: value for name, value in job["schedule"].items() if name not in _NOT_SHOWN}
    said = ", ".join(f"{name} {value}" for name, value in spec.items() if value not in (None, False))
    return f"{job['task']}: {job['schedule']['kind']}, {said}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _on_one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _refuse_anothers(plan: Mapping[str, Any]) -> None:
    """Refuse to delete jobs that belong to another program: two may have modules of the same name."""
    theirs = [job["job_id"] for job in plan["removed"]]
    if theirs and not (plan["changed"] or plan["unchanged"]):
        named = ", ".join(theirs[:3]) + (", ..." if len(theirs) > 3 else "")
        advice = f"a program of this name has other jobs ({named}): give --source, or --no-prune to keep them"
        raise BadValue("source", plan["source"], advice)


def _ask() -> None:
    if not sys.stdin.isatty():
        raise BadValue("--yes", None, "no terminal to ask on: give --yes, or `plan` to only show the plan")
    print("Apply? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ItineraryError("nothing was applied")
