"""The client's reading of logs: the kept end of one, or the lines of one that runs, as they come."""

import time
from collections.abc import Iterator
from typing import Final

from itinerary.client.results import Log
from itinerary.client.transport import Transport, given, segment

# Less than a request may take.
_WAITED: Final = 5
_PAUSE: Final = 0.5


class LogReads:
    """The requests for logs."""

    def __init__(self, api: Transport) -> None:
        self._api = api

    def run_logs(
        self,
        run_id: str,
        *,
        attempt: int | None = None,
        after: int | None = None,
        tail: int | None = None,
        follow: bool | None = None,
        wait: int | None = None,
    ) -> Log:
        """The end of an attempt's log, of the newest one if none is named, or what follows the position `after`.

        `tail` is a number of lines. `follow` lets a running attempt send its lines, and `wait` waits for them so long.
        """
        asked = given(attempt=attempt, after=after, tail=tail, follow=follow, wait=wait)
        return Log.of(self._api.object("GET", f"/runs/{segment(run_id)}/logs", params=asked))

    def follow_logs(self, run_id: str, *, attempt: int | None = None, tail: int | None = None) -> Iterator[Log]:
        """The parts of an attempt's log as they come, until it is complete; `tail` cuts the first one."""
        part = self.run_logs(run_id, attempt=attempt, tail=tail, follow=True)
        while True:
            if part.text or part.complete:
                yield part
            if part.complete:
                return
            asked_at = time.monotonic()
            part = self.run_logs(run_id, attempt=part.attempt, after=part.end, follow=True, wait=_WAITED)
            if not part.text and not part.complete and time.monotonic() - asked_at < _PAUSE:
                time.sleep(_PAUSE)  # too many wait there
