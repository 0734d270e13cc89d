"""What the command line writes: times at the ends of the calendar, and the refusals of one command for several."""

import time
from collections.abc import Mapping
from typing import Any

import pytest

from itinerary.protocol.errors import ItineraryError
from scheduler_service.cli.output import when
from scheduler_service.cli.several import NothingToDo, each


@pytest.mark.parametrize(
    ("zone", "text", "shown"),
    [
        ("Asia/Tokyo", "9999-12-31T23:59:59Z", "9999-12-31 23:59:59 UTC (in "),
        ("Asia/Tokyo", "9999-12-31T14:59:59Z", "9999-12-31 23:59:59 JST (in "),
        ("America/New_York", "0001-01-01T00:00:00Z", "01-01 00:00:00 UTC ("),
    ],
)
def test_a_time_outside_of_all_years_by_the_readers_clocks_is_shown_in_utc(
    monkeypatch: pytest.MonkeyPatch, zone: str, text: str, shown: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", zone)
        time.tzset()
        found = when(text)
    time.tzset()
    assert found is not None
    assert shown in found


def _cancel(name: str) -> Mapping[str, Any]:
    if name.startswith("over"):
        raise NothingToDo(f"run {name} is completed")
    return {"run_id": name}


def _refusal(*names: str) -> str:
    with pytest.raises(ItineraryError) as refused:
        each(names, _cancel, as_json=False, tell=lambda name, answer: None)
    return str(refused.value)


def test_refusals_are_counted_by_distinct_names_and_only_what_is_done_is_called_done() -> None:
    assert _refusal("over", "over") == "run over is completed"
    assert _refusal("over", "over.2", "over") == "2 of 2 were refused"
    assert _refusal("over", "a", "a") == "1 of 2 were refused; the others are done"
