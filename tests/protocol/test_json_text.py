"""JSON nests so deep and no deeper, whoever wrote it."""

import json
from typing import Any

import pytest

from itinerary.protocol.errors import BadValues
from itinerary.protocol.json_text import MOST_LEVELS, is_deep
from scheduler_service.core.contract.job_json import read_job


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_levels_are_counted_and_brackets_in_texts_are_none() -> None:
    assert not is_deep(json.dumps(nested(MOST_LEVELS)))
    assert is_deep(json.dumps(nested(MOST_LEVELS + 1)))
    assert is_deep('{"a": ' * 101 + "1" + "}" * 101)
    assert not is_deep(json.dumps(['[{"\\' * 500, {'[" ': "[" * 500}]))
    assert not is_deep(json.dumps([[]] * 1_000))


def test_arguments_that_nest_deeper_are_refused_when_they_are_saved() -> None:
    body = {"job_id": "a", "task": "demo.task", "schedule": {"kind": "hourly", "minute": 1}}
    read_job({**body, "args": nested(MOST_LEVELS - 1)}, created_at=0)
    with pytest.raises(BadValues, match="nest 100 levels"):
        read_job({**body, "kwargs": {"deep": nested(MOST_LEVELS)}}, created_at=0)
