"""Ports of the samples: where a leader takes its own, where they are kept, and who reads them.

An implementation of the store promises that only the leader of the present term adds any, and that what it keeps is
bounded. It decides no step and no figure.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import Lease
from scheduler_service.core.samples import QueueSample, Sample, Step


class SampleSource(Protocol):
    """The counters of a leader process. Never fails, never waits."""

    def take_sample(self, at: Instant, term: int) -> Sample:
        """Everything counted since the last call, as the sample of the step that began at `at`."""


class SampleSink(Protocol):
    """Keeps a leader's samples."""

    def keep(self, lease: Lease, samples: Sequence[tuple[Step, Sample]]) -> None:
        """Keep each, in place of one of the same step, time and term, and delete what is too old. LeaseLost."""


class Term(NamedTuple):
    """A leadership: when it began, and when its leader was last confirmed; None of the newest one."""

    term: int
    began_at: Instant
    confirmed_at: Instant | None


class QueueFigures(NamedTuple):
    """The figures of one queue in the sample from `at` on; zeros, if it does not name the queue."""

    at: Instant
    figures: QueueSample


class SampleStore(Protocol):
    """Reads samples; a bounded number, by their key."""

    def read(self, step: Step, since: Instant, until: Instant) -> list[Sample]:
        """The samples of this step with `at` in [since, until), in the order of time, then of terms."""

    def read_queue(self, step: Step, since: Instant, until: Instant, queue: str | None) -> list[QueueFigures]:
        """The figures of one queue, or of all as one, of the samples that `read` would give."""

    def terms(self, since: Instant, limit: int) -> list[Term]:
        """The newest terms, those aside that ended before `since`; the newest first."""
