"""Balanced placement as the leader remembers it: previews that may be carried out, and what the metrics show."""

from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import MINUTE, Duration, Instant
from scheduler_service.core.balancing.distribution import Distribution
from scheduler_service.core.balancing.placements import RebalancePlan

SURVEY_EVERY: Final[Duration] = MINUTE
_PLANS_KEPT: Final = 8


@dataclass(slots=True)
class Placing:
    """The newest previews, the numbers of jobs that the last rebalance moved and skipped, and the last survey."""

    plans: dict[str, RebalancePlan] = field(default_factory=dict)
    rebalanced: tuple[int, int] | None = None
    distribution: Distribution | None = None
    _next_survey_at: Instant = 0

    def survey_due(self, now: Instant) -> bool:
        """Whether the distribution is to be measured now; the next time is a minute later."""
        if now < self._next_survey_at:
            return False
        self._next_survey_at = now + SURVEY_EVERY
        return True

    def surveyed(self, seen: Distribution) -> None:
        """Keep the measured distribution."""
        self.distribution = seen

    def previewed(self, plan: RebalancePlan) -> None:
        """Keep a plan that the user may ask to carry out, in place of the oldest one."""
        self.plans[plan.plan_id] = plan
        while len(self.plans) > _PLANS_KEPT:
            del self.plans[next(iter(self.plans))]

    def carried_out(self, plan_id: str, moved: int, skipped: int) -> None:
        """Forget the plan and keep the numbers of its result."""
        self.plans.pop(plan_id, None)
        self.rebalanced = (moved, skipped)
