"""A check for monitors that are down: what they watch did not ping, or reported a failure."""

from typing import Final

from scheduler_service.cli.findings import NotWell
from scheduler_service.sql.database import Database
from scheduler_service.sql.monitors import SqlMonitorStore

_SHOWN: Final = 5


def check_monitors(database: Database) -> str:
    """Say that no monitor is down; NotWell names those that are."""
    store = SqlMonitorStore(database)
    down = store.down(_SHOWN + 1)
    if down:
        raise NotWell(f"down: {', '.join(down[:_SHOWN])}{' and more' if len(down) > _SHOWN else ''}")
    number = sum(store.counts().values())
    return "no monitor is down" if number else "there are none"
