"""Random zones and moments near a jump of their clocks."""

from random import Random

from scheduler_service.core.schedules.zones import changes_between
from tests.support.tz_files import zone_names

ZONES = zone_names()
YEAR = 31_556_952


def zone_and_moment(dice: Random, near_jumps: float = 0.9) -> tuple[str, int]:
    """A zone and a second, most often within hours of a jump of the zone's clocks between 1970 and 2100."""
    for _ in range(8 if dice.random() < near_jumps else 0):
        name, year = dice.choice(ZONES), dice.randrange(130)
        jumps = changes_between(name, year * YEAR, (year + 1) * YEAR)
        if jumps:
            return name, dice.choice(jumps).at + dice.randint(-4 * 60, 2 * 60) * 60
    return dice.choice(ZONES), dice.randrange(130 * YEAR)


def whole_minutes(zone: str, second: int) -> bool:
    """Whether the zone's offsets are whole minutes for a week around a second, as the plain models need."""
    around = changes_between(zone, second - 7 * 86_400, second + 7 * 86_400)
    return zone != "Africa/Monrovia" and all(n % 60 == 0 for c in around for n in (c.at, c.before, c.after))
