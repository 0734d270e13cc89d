"""The part of the client that changes queues, limits, calendars and freezes.

Promises what `itinerary.client.sync` promises: a request is repeated only where that has no more effect than one.
"""

from collections.abc import Mapping
from typing import Any

from itinerary.client.reads import Reads
from itinerary.client.results import Calendar, CalendarPreview, Freeze, Limit, Monitor, Queue
from itinerary.client.run_body import Moment, moment_text
from itinerary.client.transport import given, segment


class Controls(Reads):
    """Changes of queues, limits, calendars and freezes."""

    def describe_queue(self, name: str, description: str) -> Queue:
        """Say what a queue is for; its bounds and its pause stay."""
        return self.patch_queue(name, {"description": description})

    def put_queue(self, name: str, queue: Mapping[str, Any]) -> Queue:
        """Define a queue: `concurrency`, `rate`, `fair`, `description`; what is left out is none. A pause stays."""
        return Queue.of(self._api.object("PUT", f"/queues/{segment(name)}", again=True, json=queue))

    def patch_queue(self, name: str, change: Mapping[str, Any]) -> Queue:
        """Change some fields of a queue's definition; None lifts a bound."""
        return Queue.of(self._api.object("PATCH", f"/queues/{segment(name)}", again=True, json=change))

    def pause_queue(self, name: str, reason: str, until: Moment | None = None) -> Queue:
        """Pause a queue, indefinitely or `until` a time; its `running` runs run on, `pending` ones are recalled."""
        wanted = given(reason=reason, until=moment_text(until, "until"))
        return Queue.of(self._api.object("POST", f"/queues/{segment(name)}/pause", again=True, json=wanted))

    def resume_queue(self, name: str) -> Queue:
        """Resume a paused queue."""
        return Queue.of(self._api.object("POST", f"/queues/{segment(name)}/resume", again=True))

    def put_limit(self, name: str, limit: Mapping[str, Any]) -> Limit:
        """Define or replace a limit: `concurrency`, `rate`, `per_key`, `overrides`, `description`."""
        return Limit.of(self._api.object("PUT", f"/limits/{segment(name)}", again=True, json=limit))

    def patch_limit(self, name: str, change: Mapping[str, Any]) -> Limit:
        """Change some fields of a limit; None lifts a bound, and removes the key of `overrides` that has it."""
        return Limit.of(self._api.object("PATCH", f"/limits/{segment(name)}", again=True, json=change))

    def delete_limit(self, name: str) -> None:
        """Delete a limit; ApiError 409 while a job names it."""
        self._api.send("DELETE", f"/limits/{segment(name)}")

    def put_monitor(self, monitor_id: str, monitor: Mapping[str, Any]) -> Monitor:
        """Define or replace a monitor: `schedule`, `grace`, `title`, `description`, `paused`.

        The `token` of a new one is in the answer, and never shown again.
        """
        return Monitor.of(self._api.object("PUT", f"/monitors/{segment(monitor_id)}", json=monitor))

    def renew_monitor_token(self, monitor_id: str) -> str:
        """Replace the token of a monitor, and return the new one."""
        token: str = self._api.object("POST", f"/monitors/{segment(monitor_id)}/token")["token"]
        return token

    def delete_monitor(self, monitor_id: str) -> None:
        """Delete a monitor with its pings."""
        self._api.send("DELETE", f"/monitors/{segment(monitor_id)}")

    def put_calendar(self, calendar_id: str, calendar: Mapping[str, Any]) -> Calendar:
        """Define or replace a calendar: `timezone`, `rules`, `description`; it holds from `effective_from` on."""
        return Calendar.of(self._api.object("PUT", f"/calendars/{segment(calendar_id)}", again=True, json=calendar))

    def preview_calendar(self, calendar_id: str, calendar: Mapping[str, Any]) -> CalendarPreview:
        """Which jobs would run at other times if the calendar were this; changes nothing."""
        path = f"/calendars/{segment(calendar_id)}/preview"
        return CalendarPreview.of(self._api.object("POST", path, again=True, json=calendar))

    def delete_calendar(self, calendar_id: str) -> None:
        """Delete a calendar; ApiError 409 while a job names it."""
        self._api.send("DELETE", f"/calendars/{segment(calendar_id)}")

    def start_freeze(
        self,
        scope: Mapping[str, Any],
        reason: str,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        during: str = "hold",
    ) -> Freeze:
        """Freeze a scope, at once or `since` a time: `{"all": True}`, `{"queues": [...]}`, or `tags` or `jobs`.

        Its `running` runs run on, `pending` ones are recalled. `during`: occurrences that fall due within it "hold", or
        "skip". The same freeze is not started twice.
        """
        times = {"from": moment_text(since, "since"), "until": moment_text(until, "until")}
        wanted = given(scope=dict(scope), reason=reason, during=during, **times)
        return Freeze.of(self._api.object("POST", "/freezes", again=True, json=wanted))

    def end_freeze(self, freeze_id: int) -> Freeze:
        """End a freeze, also one that is to come."""
        return Freeze.of(self._api.object("POST", f"/freezes/{freeze_id}/end", again=True))
