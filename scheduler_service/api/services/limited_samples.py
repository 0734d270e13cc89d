"""Samples as a limited token sees them: its own queues, their sum in place of the total, and nothing of the others."""

from dataclasses import replace

from itinerary.protocol.instants import Instant
from scheduler_service.api.services.limited import out_of_scope
from scheduler_service.core.samples import QueueSample, Sample, Step, total_of
from scheduler_service.core.token_limits import Limits
from scheduler_service.ports.samples import QueueFigures, SampleStore, Term


class LimitedSamples(SampleStore):
    """The samples of the queues that the limits name; a token with other limits sees none."""

    def __init__(self, samples: SampleStore, limits: Limits) -> None:
        self._samples = samples
        self._limits = limits

    def read(self, step: Step, since: Instant, until: Instant) -> list[Sample]:
        if not self._limits.queues:
            raise out_of_scope("the installation's trends")
        return [self._own(sample) for sample in self._samples.read(step, since, until)]

    def read_queue(self, step: Step, since: Instant, until: Instant, queue: str | None) -> list[QueueFigures]:
        nothing = QueueSample()
        return [
            QueueFigures(one.at, one.total if queue is None else one.queues.get(queue, nothing))
            for one in self.read(step, since, until)
        ]

    def terms(self, since: Instant, limit: int) -> list[Term]:
        return self._samples.terms(since, limit)

    def _own(self, sample: Sample) -> Sample:
        queues: dict[str, QueueSample] = {
            name: one for name, one in sample.queues.items() if self._limits.sees_queue(name)
        }
        nothing = (0,) * len(sample.delays)
        return replace(sample, queues=queues, total=total_of(queues), delays=nothing, workers=0, inbox_lag=0)
