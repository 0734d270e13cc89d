"""Definitions of limits and of queues as JSON: read, judged, changed, written."""

from typing import Any

import pytest

from itinerary.protocol.errors import BadValues
from itinerary.protocol.instants import HOUR, SECOND
from scheduler_service.core.contract.limit_json import changed_limit, limit_body, read_limit, read_queue
from scheduler_service.core.limits import Bounds, Limit, Rate

LONG, NAN = "k" * 257, float("nan")


@pytest.mark.parametrize(("body", "field", "why"), [
    ({}, "concurrency", "give concurrency, rate or both"),
    ({"concurrency": None, "rate": None}, "concurrency", "give concurrency, rate or both"),
    *(({"concurrency": no}, "concurrency", "from 1 to 1000000") for no in (0, -1, True, 1.5, NAN, "5", 10**7, [])),
    ({"rate": 5}, "rate", "JSON object"), ({"rate": {"per": "1s"}}, "rate.count", "required"),
    ({"rate": {"count": 5}}, "rate.per", "required"),
    *(({"rate": {"count": value, "per": "1s"}}, "rate.count", "1 to 100000") for value in (0, -1, True, NAN, 100_001)),
    *(({"rate": {"count": 1, "per": value}}, "rate.per", "") for value in ("0s", "999ms", "25h", 10, "soon")),
    ({"rate": {"count": 1, "per": "1s", "burst": 2}}, "rate.burst", "known are count, per"),
    ({"concurrency": 1, "at": "start"}, "at", "known are concurrency, description, overrides, per_key, rate"),
    ({"concurrency": 1, "per_key": None}, "per_key", "true or false"),
    ({"concurrency": 1, "description": 5}, "description", ""),
    ({"concurrency": 1, "overrides": {"acme": {"concurrency": 2}}}, "overrides", "per_key"),
    ({"concurrency": 1, "per_key": True, "overrides": []}, "overrides", "JSON object"),
    ({"concurrency": 1, "per_key": True, "overrides": {"": {"concurrency": 2}}}, "overrides", "1 to 256"),
    ({"concurrency": 1, "per_key": True, "overrides": {LONG: {"concurrency": 2}}}, "overrides", "1 to 256"),
    ({"concurrency": 1, "per_key": True, "overrides": {"a\0": {"concurrency": 2}}}, "overrides", "without NUL"),
    ({"concurrency": 1, "per_key": True, "overrides": {"a": {}}}, "overrides.a", "give concurrency, rate or both"),
    ({"concurrency": 1, "per_key": True, "overrides": {"a": 5}}, "overrides.a", "JSON object"),
    ({"concurrency": 1, "per_key": True, "overrides": {"a": {"concurrency": 0}}}, "overrides.a.concurrency", ""),
    ({"concurrency": 1, "per_key": True, "overrides": {"a": {"fair": 1}}}, "overrides.a.fair", "not known"),
    ({"concurrency": 1, "per_key": True, "overrides": {str(n): {"concurrency": 1} for n in range(1_001)}},
     "overrides", "at most 1,000"),
])  # fmt: skip
def test_each_wrong_value_is_named(body: Any, field: str, why: str) -> None:
    with pytest.raises(BadValues) as refused:
        read_limit("stripe", body)
    (error,) = refused.value.errors
    assert error.field == field
    assert why in str(error)


def test_what_is_written_is_read_as_the_same() -> None:
    of_keys = {"acme": Bounds(20), "k" * 256: Bounds(rate=Rate(100_000, 24 * HOUR))}
    limit = Limit("a" * 128, Bounds(1_000_000, Rate(1, SECOND)), True, of_keys, "why")
    assert read_limit(limit.name, limit_body(limit)) == limit
    assert changed_limit(limit, {}) == limit


def test_a_change_of_overrides_is_one_of_the_given_keys() -> None:
    limit = Limit("tenant", Bounds(1), per_key=True, overrides={"a": Bounds(2, Rate(1, SECOND)), "b": Bounds(3)})
    changed = changed_limit(limit, {"overrides": {"a": {"concurrency": 5}, "b": None, "unknown": None}})
    assert changed.overrides == {"a": Bounds(5)}
    with pytest.raises(BadValues, match="overrides: 5 is not accepted; give a JSON object"):
        changed_limit(limit, {"overrides": 5})


def test_a_queue_needs_no_bound() -> None:
    assert read_queue({"concurrency": None, "rate": None}) == read_queue({})
