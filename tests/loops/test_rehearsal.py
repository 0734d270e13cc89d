"""What a standby does once, before its takeover."""

from types import SimpleNamespace

import pytest

from itinerary.protocol.errors import BrokerUnavailable, StoreUnavailable
from scheduler_service.loops.rehearsal import rehearse


class Part:
    """A database, a broker or a Redis that notes what it is asked, or is away."""

    def __init__(self, name: str, asked: list[str], away: str) -> None:
        self._name, self._asked, self._away = name, asked, away

    def __getattr__(self, question: str) -> object:
        def answer() -> None:
            self._asked.append(f"{self._name} {question}")
            if self._name == self._away:
                raise StoreUnavailable("away") if self._name == "store" else BrokerUnavailable("away")

        return answer


@pytest.mark.parametrize(("away", "asked"), [("nothing", 5), ("store", 1), ("dispatcher", 2), ("inbox", 5)])
def test_what_is_away_is_asked_once_and_left_to_the_takeover(away: str, asked: int) -> None:
    notes: list[str] = []
    parts = {name: Part(name, notes, away) for name in ("store", "dispatcher", "claims", "inbox")}
    rehearse(SimpleNamespace(**parts))  # type: ignore[arg-type]
    every = ["store rehearse", "dispatcher ping", "dispatcher query_epoch", "claims query_epoch", "inbox depth"]
    assert notes == every[:asked]
