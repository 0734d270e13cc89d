"""Examples for the OpenAPI document: one for each request, answer and parameter. Values only; tests validate them."""

from typing import Any, Final

from scheduler_service.api.openapi.access_shapes import ACCESS_EXAMPLES
from scheduler_service.api.openapi.log_shapes import LOG
from scheduler_service.api.openapi.run_calendar_shapes import RUN_CALENDAR
from scheduler_service.api.openapi.trend_shapes import TRENDS
from scheduler_service.core.contract.job_json import DEFAULTS

_SCHEDULE: Final = {
    "kind": "cron", "expr": "0 2 1 * *", "timezone": "Europe/Berlin", "day_match": "or", "dst_gap": "next_valid",
    "dst_fold": "first",
}  # fmt: skip
_JOB: Final = {
    **DEFAULTS, "job_id": "billing.close", "title": "Close the month", "task": "billing.close_month",
    "schedule": _SCHEDULE, "retry": {**DEFAULTS["retry"], "max_attempts": 3}, "tags": ["finance"], "paused": False,
    "pause_reason": None, "paused_until": None, "pause_waiting": None, "source": None, "version": 3,
}  # fmt: skip
_ATTEMPT: Final = {
    "attempt": 1, "outcome": "completed", "reason": None, "pending_at": "2026-12-01T01:00:00.004Z",
    "published_at": "2026-12-01T01:00:00.006Z", "started_at": "2026-12-01T01:00:00.012Z",
    "finished_at": "2026-12-01T01:00:07.5Z", "worker": "celery@host", "error": None, "late_reports": None,
    "progress": None,
}  # fmt: skip
_RUN: Final = {
    "run_id": "billing.close_2026-12-01T01:00:00Z", "job_id": "billing.close", "job_version": 3,
    "task": "billing.close_month", "args": [], "kwargs": {}, "headers": None,
    "queue": "default", "priority": 5, "limits": [{"name": "tenant", "key": "acme"}], "fair_key": None, "force": False,
    "retry_of": None, "scheduled_at": "2026-12-01T01:00:00Z", "due_at": "2026-12-01T01:00:00Z", "start_by": None,
    "end_by": None, "sla_missed": None, "state": "completed", "attempt": 1, "reason": None, "cancel_requested_at": None,
    "pending_at": "2026-12-01T01:00:00.004Z", "published_at": "2026-12-01T01:00:00.006Z",
    "started_at": "2026-12-01T01:00:00.012Z", "finished_at": "2026-12-01T01:00:07.5Z", "worker": "celery@host",
    "progress": None, "term": 7,
    "result": {"invoices": 42}, "error": None, "attempts": [_ATTEMPT],
}  # fmt: skip
_AUDIT: Final = {
    "id": 17, "at": "2026-11-27T10:00:00Z", "actor": "ann", "role": "operator", "action": "run.cancel",
    "subject": "billing.close_2026-12-01T01:00:00Z", "before": {"state": "scheduled"},
    "after": {"state": "cancelled"},
}  # fmt: skip
_TOKEN: Final = "mon_3q2-7wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
_BEARER: Final = f"Bearer {_TOKEN}"
_MONITOR: Final = {
    "title": "Backup of the shop", "schedule": {"kind": "cron", "expr": "0 2 * * *", "timezone": "Europe/Berlin"},
    "grace": "30m", "description": "", "paused": False,
}  # fmt: skip
_MONITOR_OUT: Final = {
    "monitor_id": "backup", **_MONITOR, "calendars": None, "version": 1, "state": "up",
    "expected_at": "2026-12-02T01:00:00Z", "last_ping_at": "2026-12-01T01:07:00Z",
    "last_outcome": "success", "last_duration": "7m", "created_at": "2026-11-27T10:00:00Z",
    "updated_at": "2026-11-27T10:00:00Z", "source": None,
}  # fmt: skip
_LIMIT: Final = {
    "concurrency": 5, "rate": {"count": 90, "per": "10s"}, "per_key": True, "overrides": {"acme": {"concurrency": 20}},
    "description": "calls to Stripe, by tenant",
}  # fmt: skip
_LIMIT_OUT: Final = {
    "name": "stripe", **_LIMIT, "in_flight": 3, "waiting": 17, "waiting_is_exact": True,
    "busiest_keys": [{"key": "acme", "in_flight": 3, "waiting": 17}],
}  # fmt: skip
_CALENDAR: Final = {
    "timezone": "Europe/Berlin", "description": "public holidays, and the plant's closing",
    "rules": [
        {"holidays": "DE", "subdivision": "BE"}, {"from": "2026-12-24", "until": "2027-01-02", "name": "plant closed"},
    ],
}  # fmt: skip
_CALENDAR_VERSION: Final = {
    **_CALENDAR, "version": 4, "effective_from": "2026-12-01T10:00:30Z", "known_until": "2031-12-31",
    "created_at": "2026-11-02T09:00:00Z",
}  # fmt: skip
_CALENDAR_OUT: Final = {**_CALENDAR_VERSION, "calendar_id": "berlin", "updated_at": "2026-12-01T10:00:00Z"}
_FEED: Final = {
    "url": "https://example.org/closed.ics", "fetched_at": "2026-12-01T10:00:00Z", "good_at": "2026-11-30T10:00:00Z",
    "error": None, "failing_since": None,
}  # fmt: skip
_QUEUE: Final = {
    "name": "mail", "defined": True, "concurrency": 20, "rate": None, "fair": True,
    "description": "mails to customers", "paused": True,
    "pause_reason": "the mail server is away", "paused_at": "2026-12-01T01:00:00Z", "paused_by": "ann",
    "paused_until": "2026-12-01T06:00:00Z", "waiting": 17, "waiting_is_exact": True, "pending": 0, "running": 2,
    "in_flight_is_exact": True, "depth": 0, "oldest_age": None, "lag": None, "workers": 2,
}  # fmt: skip
_TIMES: Final = {"current_time": "2026-12-01T10:00:00Z", "proposed_time": "2026-12-01T10:30:00Z"}
_MOVED: Final = {"job_id": "shop.sync", "old_time": "2026-12-01T10:00:00Z", "new_time": "2026-12-01T10:30:00Z"}
_PLAN_ID: Final = "01939a2b-7c3d-7000-8000-0123456789ab"
_LOADS: Final = [3] * 96

_FREEZE: Final = {
    "freeze_id": 12, "status": "active", "scope": {"tags": ["billing"]}, "during": "hold",
    "from": "2026-12-01T01:00:00Z", "until": "2026-12-01T06:00:00Z", "reason": "a deploy",
    "created_at": "2026-12-01T01:00:00Z", "created_by": "ann", "ended_at": None, "ended_by": None, "running": 2,
    "pending": 0, "in_flight_is_exact": True,
}  # fmt: skip
_ADOPTED: Final = {
    "version": "2026f", "digest": "9f2c", "source": "2026f of the tzdata package",
    "holder": "01939a2b-0000-7000-8000-000000000000", "adopted_at": "2026-11-27T10:00:00Z",
    "effective_from": "2026-11-27T10:01:00Z",
}  # fmt: skip
_BULK: Final = {
    "operation_id": "01a222dd-ef98-74a3-a8cc-5dd25b5fc61c", "on": "runs", "action": "retry",
    "filter": {"state": ["failed"]}, "queue": None, "reason": None, "until": None, "undo_of": None, "state": "done",
    "total": 12, "total_is_exact": True, "seen": 12, "counts": {"retried": 12}, "error": None, "actor": "ann",
    "created_at": "2026-12-01T09:00:00Z", "updated_at": "2026-12-01T09:00:00.2Z",
    "finished_at": "2026-12-01T09:00:00.2Z", "undone_by": None, "can_be_undone": True,
}  # fmt: skip
EXAMPLES: Final[dict[str, Any]] = {
    "JobOut": {**_JOB, "next_runs": ["2027-01-01T01:00:00Z"], "warnings": []},
    "JobPage": {"items": [_JOB], "next_cursor": "WyJiaWxsaW5nLmNsb3NlIl0"},
    "JobPut": {"task": "billing.close_month", "schedule": _SCHEDULE},
    "JobPatch": {"priority": 2, "schedule": {"expr": "0 3 1 * *"}},
    "PauseIn": {"reason": "audit", "until": "2026-12-05T00:00:00Z"},
    "TriggerIn": {"kwargs": {"dry_run": True}},
    "RetryIn": {"idempotency_key": "again-17"},
    "BackfillOut": {
        "job_id": "billing.close", "from": "2026-09-01T00:00:00Z", "to": "2026-12-01T00:00:00Z",
        "overlap": "queue_all", "dry_run": True, "occurrences": 3,
        "left_out": {"completed": 2, "active": 0, "planned": 0}, "runs": 1, "first": ["2026-11-01T01:00:00Z"],
        "run_ids": [],
        "warnings": ["occurrences of the job that fall due meanwhile are skipped: its overlap rule is skip"],
    },
    "Preview": {
        "occurrences": [
            {
                "at": "2026-12-01T01:00:00Z", "local": "2026-12-01T02:00:00", "offset": "+01:00", "dst": None,
                "stands_for": [],
            }
        ],
        "left_out": [],
        "text": "At 02:00, on day 1 of the month, Europe/Berlin",
        "warnings": [],
    },
    "PlanOut": {
        "source": "shop", "plan_version": "6f1c", "applied": False, "added": [], "changed": [], "removed": [],
        "unchanged": 1, "left": [], "warnings": [],
        "monitors": {"added": [], "changed": [], "removed": [], "left": [], "unchanged": 0},
    },
    "RunOut": _RUN,
    "LogOut": LOG,
    "RunPage": {"items": [{**_RUN, "attempts": []}], "next_cursor": None},
    "TimelineOut": {
        "by": "queue", "since": "2026-12-01T00:00:00Z", "until": "2026-12-01T01:00:00Z", "part_seconds": 36.0,
        "detail": "counts", "run_count": 1200, "run_count_is_exact": True, "lane_count": 1, "next_lane": None,
        "lanes": [
            {
                "name": "default", "run_count": 1200, "runs": [],
                "parts": [{"since": "2026-12-01T00:00:00Z", "counts": {"completed": 1199, "failed": 1}}],
            }
        ],
    },
    "BatchIn": {"runs": [{"task": "itinerary.echo", "args": [1]}, {"task": "itinerary.echo", "args": [2]}]},
    "BatchOut": {"runs": [_RUN]},
    "ExplanationOut": {
        "job_id": "billing.close", "run_id": None, "at": "2026-12-01T01:00:00Z", "verdict": "paused",
        "text": 'Job billing.close was paused at 2026-11-27T10:00:00Z by ann: "audit". '
        "Occurrences during a pause are not made up for.",
        "because": [
            {
                "words": 'Job billing.close was paused at 2026-11-27T10:00:00Z by ann: "audit".',
                "row": {"table": "job_versions", "job_id": "billing.close", "version": 4, "paused": True},
            },
            {"words": "Occurrences during a pause are not made up for.", "row": None},
        ],
        "nearest_before": None, "nearest_after": None,
    },
    "AuditPage": {"items": [_AUDIT], "next_cursor": None},
    "Status": {
        "leader": "01939a2b-0000-7000-8000-000000000000", "term": 7, "since": "2026-11-27T10:00:00Z",
        "last_leader": "01939a2b-0000-7000-8000-000000000000", "last_heard_at": "2026-12-01T00:59:59Z",
        "leader_answers": True, "leader_without_redis": False, "other_than_leaders": None,
        "zone_rules": "2026f", "zone_rules_api": "2026f", "zone_rules_standby": None,
        "index_runs": 10_250, "last_rebuild_at": "2026-12-01T00:59:30Z", "last_iteration_at": "2026-12-01T01:00:00Z",
        "oldest_due_at": None, "active_runs": 12, "inbox_depth": 0, "workers": 2,
    },
    "ZoneRules": {
        "version": "2026f", "digest": "9f2c", "adopted": [_ADOPTED], "installed": "2026g", "installed_digest": "41d0",
        "installed_source": "2026g of the tzdata package",
        "difference": "newer than those in force (2026g of the tzdata package; 2026f): they come into force when a "
        "leader with them starts",
        "leader": "2026f", "standby": None,
    },
    "ZoneDiffIn": {"from": "in_force", "to": "installed", "days": 400},
    "ZoneDiffOut": {
        "from": "2026f", "to": "2026g", "same": False, "start": "2026-12-01T01:00:00Z", "end": "2028-11-30T01:00:00Z",
        "zones": [{"timezone": "America/Winnipeg", "first_at": "2027-03-14T08:00:00Z"}],
        "jobs": [
            {
                "job_id": "billing.close", "timezone": "America/Winnipeg", "before": "2027-03-14T14:00:00Z",
                "after": "2027-03-14T15:00:00Z",
            }
        ],
        "changed": 1, "compared": 240, "unchecked": 0,
    },
    "Workers": {
        "items": [
            {
                "name": "celery@host", "alive": True, "last_seen_at": "2026-12-01T01:00:00Z", "concurrency": 8,
                "running": ["billing.close_2026-12-01T01:00:00Z"], "queues": ["default"], "version": "0.1.0",
                "since": "2026-11-30T09:00:00Z",
            }
        ]
    },
    "KnownTasks": {"items": ["billing.close_month", "itinerary.echo"], "complete": True},
    "TrendsOut": TRENDS,
    "RunCalendarOut": RUN_CALENDAR,
    "QueueIn": {"concurrency": 20, "rate": None, "fair": True, "description": "mails to customers"},
    "MonitorIn": _MONITOR,
    "Monitors": {"items": [_MONITOR_OUT], "next_cursor": None},
    "MonitorOut": {**_MONITOR_OUT, "pings": [{"at": "2026-12-01T01:07:00Z", "outcome": "success", "duration": "7m"}]},
    "MonitorSaved": {**_MONITOR_OUT, "token": None},
    "MonitorToken": {"token": _TOKEN},
    "PingAnswer": {"monitor_id": "backup", "state": "up", "expected_at": "2026-12-02T01:00:00Z"},
    "LimitIn": _LIMIT,
    "LimitPatch": {"concurrency": 8, "overrides": {"acme": None}},
    "LimitOut": _LIMIT_OUT,
    "Limits": {"items": [_LIMIT_OUT], "next_cursor": None},
    "CalendarIn": _CALENDAR,
    "CalendarOut": _CALENDAR_OUT,
    "CalendarWithFeeds": {**_CALENDAR_OUT, "feeds": [_FEED]},
    "Calendars": {"items": [_CALENDAR_OUT], "next_cursor": None},
    "CalendarVersions": {"items": [{**_CALENDAR_VERSION, "actor": "ann"}], "next_cursor": None},
    "CalendarPreview": {
        "jobs": [
            {"job_id": "billing.close", "before": ["2026-12-24T01:00:00Z"], "after": ["2026-12-28T01:00:00Z"]},
        ],
        "checked": 12, "more": False,
    },
    "CalendarJobs": {"items": ["billing.close"], "next_cursor": None},
    "CalendarMonitors": {"items": ["backup"], "next_cursor": None},
    "CalendarDays": {
        "calendar_id": "berlin", "timezone": "Europe/Berlin", "year": 2026,
        "days": [{"date": "2026-12-25", "whole": True, "names": ["Christmas Day", "plant closed"]}],
    },
    "FreezeIn": {"scope": {"tags": ["billing"]}, "reason": "a deploy", "until": "2026-12-01T06:00:00Z"},
    "FreezeOut": _FREEZE,
    "Freezes": {"items": [_FREEZE], "next_cursor": None},
    "QueuePauseIn": {"reason": "the mail server is away", "until": "2026-12-01T06:00:00Z"},
    "QueueOut": _QUEUE,
    "Queues": {"items": [_QUEUE], "next_cursor": None},
    "DistributionOut": {
        "window_hours": 24, "slot_minutes": 15, "total_jobs": 120,
        "hourly_distribution": [{"hour": hour, "job_count": 5} for hour in range(24)], "distribution_score": 0.93,
        "peak_hour": 10, "peak_count": 31, "suggestion": "The load is even.", "window_start": "2026-12-01T01:00:00Z",
        "slot_distribution": [{"at": "2026-12-01T01:00:00Z", "job_count": 3}],
    },
    "PreviewOut": {
        "plan_id": _PLAN_ID, "would_move": 1, "would_skip": 1, "current_score": 0.71, "projected_score": 0.93,
        "preview": [{"job_id": "shop.sync", **_TIMES, "why": "its slot is the fullest"}],
        "skipped": [{"job_id": "shop.mail", "reason": "pinned"}], "first_slot": "2026-12-01T01:00:00Z",
        "current_slots": _LOADS, "projected_slots": _LOADS,
    },
    "RebalanceIn": {"plan_id": _PLAN_ID},
    "RebalanceOut": {
        "plan_id": _PLAN_ID, "moved": [_MOVED], "skipped": [{"job_id": "shop.mail", "reason": "pinned"}],
        "new_distribution_score": 0.93,
    },
    "Problem": {
        "type": "urn:itinerary:problem:unprocessable-content", "title": "Unprocessable Content", "status": 422,
        "detail": "some values are not accepted", "request_id": _PLAN_ID,
        "errors": [
            {"loc": ["priority"], "msg": "priority: 11 is not accepted; give a whole number from 0 to 9"}
        ],
    },
    "BulkPlanOut": {
        "on": "runs", "action": "retry", "filter": {"state": ["failed"]}, "matching": 12, "matching_is_exact": True,
        "changing": 12, "changing_is_exact": True,
        "groups": [{"what": "failed", "count": 12, "count_is_exact": True, "outcome": "retried", "why": None}],
        "sample": ["billing.close_2026-12-01T01:00:00Z"],
    },
    "BulkOut": _BULK,
    "BulkPage": {"items": [_BULK], "next_cursor": None},
    **ACCESS_EXAMPLES,
}  # fmt: skip
"""By the name of the schema; some requests carry their own."""

PARAMETERS: Final[dict[str, Any]] = {
    "monitor_id": "backup", "outcome": "success", "duration": "12s", "token": _TOKEN, "authorization": _BEARER,
    "name": "stripe", "view": "failed today", "personal": False, "freeze_id": "12", "session_id": "17", "link_id": "3",
    "operation_id": _BULK["operation_id"], "status": "active", "calendar_id": "berlin", "year": 2026, "tag": "finance",
    "job_id": "billing.close", "run_id": "billing.close_2026-12-01T01:00:00Z", "If-Match": '"3"', "If-None-Match": "*",
    "Idempotency-Key": "order-17", "limit_name": "tenant", "limit_key": "acme", "task": "billing.close_month",
    "format": "csv", "q": "close", "paused": False, "source": "shop", "limit": 100, "cursor": "WyJiaWxsaW5nLmNsb3NlIl0",
    "from": "2026-12-01T00:00:00Z", "to": "2026-12-02T00:00:00Z", "step": "10m", "at": "2026-12-01T01:00:00Z",
    "since": "2026-12-01T00:00:00Z", "attempt": 1, "after": 0, "tail": 100, "follow": False, "wait": 0, "count": 10,
    "until": "2026-12-02T00:00:00Z", "state": ["failed"], "queue": "default", "subject": "billing.close",
    "actor": "ann", "action": "job.pause", "total": False, "with_runs": False, "by": "queue", "first_lane": 25,
    "date": "2026-12-01", "days": 7, "unit": "day", "timezone": "Europe/Berlin", "last_state": ["failed"],
}  # fmt: skip

HEADERS: Final[dict[str, Any]] = {
    "ETag": {"description": "The job's version, for If-Match", "schema": {"type": "string"}, "example": '"3"'},
    "X-Request-Id": {
        "description": "The id of the request, yours or a new one; the log names it",
        "schema": {"type": "string"},
        "example": _PLAN_ID,
    },
    "Location": {"description": "Where it is", "schema": {"type": "string"}, "example": "/api/v1/jobs/billing.close"},
}
