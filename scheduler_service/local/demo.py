"""The example jobs of `itinerary up --demo`: each schedule kind, and jobs that fail and are retried.

Owns their definitions. Promises: a demo job that exists stays as it is, so that edits survive. Every task in them is
built in and leaves this machine alone.
"""

import hashlib
import secrets
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from itinerary.client.sync import ApiError, Client
from itinerary.protocol.instants import format_instant, from_datetime
from scheduler_service.config.settings import api_tokens_text

JOBS: Final[tuple[dict[str, Any], ...]] = (
    {
        "job_id": "demo.heartbeat",
        "title": "Every ten seconds",
        "task": "itinerary.echo",
        "kwargs": {"message": "still here"},
        "schedule": {"kind": "interval", "every": "10s"},
        "tags": ["demo"],
    },
    {
        "job_id": "demo.offset",
        "title": "Every 25 minutes, 2 minutes past",
        "task": "itinerary.echo",
        "kwargs": {"message": "00:27, 00:52, 01:17, ..."},
        "schedule": {"kind": "interval", "every": "25m", "offset": "2m"},
        "tags": ["demo"],
    },
    {
        "job_id": "demo.weekdays",
        "title": "Every five minutes of a working day in Berlin",
        "task": "itinerary.echo",
        "kwargs": {"message": "good day"},
        "schedule": {"kind": "cron", "expr": "*/5 8-17 * * mon-fri", "timezone": "Europe/Berlin"},
        "tags": ["demo", "cron"],
    },
    {
        "job_id": "demo.every-minute",
        "title": "A nap at every full minute",
        "task": "itinerary.sleep",
        "kwargs": {"seconds": 3},
        "schedule": {"kind": "cron", "expr": "* * * * *"},
        "overlap": "skip",
        "timeout": "30s",
        "tags": ["demo", "cron"],
    },
    {
        "job_id": "demo.hourly",
        "title": "Every hour at 17 minutes",
        "task": "itinerary.echo",
        "kwargs": {"message": "a quarter past, and a bit"},
        "schedule": {"kind": "hourly", "minute": 17},
        "tags": ["demo"],
    },
    {
        "job_id": "demo.sunset",
        "title": "At sunset in Berlin",
        "task": "itinerary.echo",
        "kwargs": {"message": "lights on"},
        "schedule": {
            "kind": "solar",
            "event": "sunset",
            "latitude": 52.52,
            "longitude": 13.405,
            "timezone": "Europe/Berlin",
        },
        "tags": ["demo"],
    },
    {
        "job_id": "demo.office-hours",
        "title": "Every 90 minutes of office hours, and at midnight",
        "task": "itinerary.echo",
        "kwargs": {"message": "coffee"},
        "schedule": {
            "kind": "any",
            "of": [
                {
                    "kind": "interval",
                    "every": "90m",
                    "window": {"from": "09:00", "until": "17:00", "days": "mon-fri"},
                    "timezone": "Europe/Berlin",
                },
                {"kind": "calendar", "unit": "day", "at": ["00:00"], "timezone": "Europe/Berlin"},
            ],
        },
        "tags": ["demo"],
    },
    {
        "job_id": "demo.second-friday",
        "title": "The second Friday of each month, by a recurrence rule",
        "task": "itinerary.echo",
        "kwargs": {"message": "patches"},
        "schedule": {
            "kind": "rrule",
            "rrule": "FREQ=MONTHLY;BYDAY=2FR",
            "dtstart": "2026-01-09T09:00",
            "timezone": "Europe/Berlin",
        },
        "tags": ["demo"],
    },
    {
        "job_id": "demo.flaky",
        "title": "Fails at first, and succeeds when tried again",
        "task": "itinerary.fail",
        "kwargs": {"message": "not yet", "until_attempt": 2},
        "schedule": {"kind": "interval", "every": "1m", "offset": "30s"},
        "retry": {"max_attempts": 3, "initial": "2s"},
        "tags": ["demo"],
    },
    {
        "job_id": "demo.failing",
        "title": "Always fails, after three attempts",
        "task": "itinerary.fail",
        "kwargs": {"message": "this one is meant to fail"},
        "schedule": {"kind": "interval", "every": "1m"},
        "retry": {"max_attempts": 3, "initial": "2s", "factor": 2, "max": "10s", "jitter": False},
        "tags": ["demo"],
    },
)


def demo_jobs(now: datetime) -> list[dict[str, Any]]:
    """Return every example job; the one that runs once does so half a minute after `now`."""
    soon = format_instant(from_datetime(now.replace(microsecond=0) + timedelta(seconds=30)))
    once = {
        "job_id": "demo.once",
        "title": "Once, half a minute after the first start",
        "task": "itinerary.echo",
        "kwargs": {"message": "that was it"},
        "schedule": {"kind": "once", "at": soon},
        "tags": ["demo"],
    }
    return [*(dict(job) for job in JOBS), once]


def with_demo_token(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the API's tokens with one more for the demo jobs, and that one. It is valid until this `up` ends."""
    token = secrets.token_urlsafe(24)
    own = f"up-demo:operator:{hashlib.sha256(token.encode()).hexdigest()}"
    return ",".join(filter(None, [api_tokens_text(environ), own])), token


def add_demo_jobs(client: Client, now: datetime) -> None:
    """Create the example jobs that do not exist yet, and report them."""
    known = 0
    for job in demo_jobs(now):
        try:
            client.create_job(job)
            print(f"{job['job_id']}: {job['title']}", flush=True)
        except ApiError as exc:
            if exc.status != 409:
                raise
            known += 1
    if known:
        print(f"example jobs that are there already, and stay as they are: {known}", flush=True)


def main() -> None:
    """Run `python -m scheduler_service.local.demo API_URL`, with ITINERARY_API_TOKEN if the API needs one."""
    import os

    with Client(sys.argv[1], token=os.environ.get("ITINERARY_API_TOKEN") or None) as client:
        add_demo_jobs(client, datetime.now(UTC))


if __name__ == "__main__":
    main()
