"""The sampler's thread: once a minute it writes what the leader counted, as a minute and into its ten minutes.

Nothing waits for it. A sample that the database does not take is dropped, and the minute is a gap. Nothing is counted
twice, since a sample has its term and time as its key. After a kill the minute under way is lost, and the next leader
begins at zero. A leader that is stopped writes at once what it counted.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from itinerary.protocol.errors import LeaseLost, RowRefused, StoreUnavailable
from itinerary.protocol.instants import MINUTE, SECOND, Duration
from scheduler_service.core.samples import Sample, Step, merged
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.repeating import Repeating
from scheduler_service.ports.samples import SampleSink, SampleSource

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Sampling:
    """The source of samples, the store that keeps them, and the interval between two."""

    source: SampleSource
    sink: SampleSink
    every: Duration = MINUTE


class Sampler(Repeating):
    """One term's samples, each written at the end of its minute by the database's clock."""

    def __init__(self, sampling: Sampling, renewer: LeaseRenewer, on_crash: Callable[[BaseException], None]) -> None:
        super().__init__("sampler", on_crash, self._sample)
        self._sampling = sampling
        self._renewer = renewer
        self._began_at = renewer.now()
        self._ten: list[Sample] = []
        # What this process counted in an earlier term is no part of this one.
        sampling.source.take_sample(self._began_at, renewer.lease.term)

    def _once(self) -> None:
        if not self._stopped.wait(self._rest() / SECOND):
            self._sample()

    def _rest(self) -> Duration:
        """Return the time to the end of the minute."""
        return self._sampling.every - self._renewer.now() % self._sampling.every

    def _sample(self) -> None:
        """Write what was counted since the last sample, to the minute in which that began."""
        at, self._began_at = self._began_at, self._renewer.now()
        sample = self._sampling.source.take_sample(at - at % MINUTE, self._renewer.lease.term)
        if not self._renewer.trusted():
            return
        try:
            self._sampling.sink.keep(self._renewer.lease, self._with_its_ten(sample))
        except (StoreUnavailable, RowRefused, LeaseLost) as exc:
            log.warning("sample not written", error=str(exc))

    def _with_its_ten(self, sample: Sample) -> list[tuple[Step, Sample]]:
        length = Step.TEN_MINUTES.length
        at = sample.at - sample.at % length
        same = [one for one in self._ten if one.at - one.at % length == at]
        minute = merged([*(one for one in same if one.at == sample.at), sample], sample.at)
        self._ten = [*(one for one in same if one.at != sample.at), minute]
        return [(Step.MINUTE, minute), (Step.TEN_MINUTES, merged(self._ten, at))]
