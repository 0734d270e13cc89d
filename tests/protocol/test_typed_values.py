"""What was enqueued arrives unchanged, by kombu's own decoder; what JSON has no word for can be carried too."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kombu.utils.json import dumps as kombus_dumps
from kombu.utils.json import loads as kombus_loads

from itinerary.protocol.errors import BadValue
from itinerary.protocol.run_fields import check_payload
from itinerary.protocol.typed_values import careful, flaw, from_python, may_need_care, to_message
from itinerary.worker.escapes import learn_escapes

learn_escapes()

_LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.floats(allow_nan=False) | st.text()
_KEYS = st.sampled_from(["__type__", "__value__", "$type", "$value", "a"]) | st.text()
_NAMES = st.sampled_from(["datetime", "uuid", "decimal", "bytes", "base64", "itinerary", "plain", "nope"])


def _objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    kombus = st.fixed_dictionaries({"__type__": _NAMES | values, "__value__": values})
    return st.lists(values) | st.dictionaries(_KEYS, values) | kombus


_JSON = st.recursive(_LEAVES | _NAMES, _objects)
_INSTANTS = st.datetimes(timezones=st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=45))]))
_PYTHONS = st.recursive(
    _LEAVES | _INSTANTS | st.dates() | st.times() | st.decimals(allow_nan=False) | st.uuids() | st.binary(), _objects
)


def delivered(stored: Any) -> Any:
    """What a task is given."""
    return kombus_loads(json.dumps(to_message(json.loads(json.dumps(stored)))))


def as_stored(value: Any) -> Any:
    return from_python(value, lambda other: json.loads(kombus_dumps(other)))


def _is_typed(value: Any) -> bool:
    """Whether something in it stands for something else."""
    if isinstance(value, dict):
        return value.keys() == {"$type", "$value"} or any(map(_is_typed, value.values()))
    return isinstance(value, list) and any(map(_is_typed, value))


@pytest.mark.slow
@given(_JSON.filter(lambda value: not _is_typed(value)))
def test_plain_json_arrives_as_it_was_enqueued(value: Any) -> None:
    assert delivered(value) == value


@pytest.mark.slow
@given(_JSON)
def test_whatever_is_called_plain_arrives_as_it_stands(value: Any) -> None:
    assert delivered({"$type": "plain", "$value": value}) == value


@given(_PYTHONS.filter(lambda value: not _is_typed(value)))
def test_what_python_has_arrives_as_the_same_value(value: Any) -> None:
    assert delivered(as_stored(value)) == value


def test_a_dictionary_that_looks_typed_comes_back_as_a_dictionary() -> None:
    value = {"$type": "decimal", "$value": "1.10"}
    assert delivered(as_stored({"a": [value]})) == {"a": [value]}


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ({"$type": "datetime", "$value": "2026-12-01T12:00:00Z"}, datetime(2026, 12, 1, 12, tzinfo=UTC)),
        ({"$type": "date", "$value": "2026-12-01"}, date(2026, 12, 1)),
        ({"$type": "time", "$value": "12:30"}, time(12, 30)),
        ({"$type": "decimal", "$value": "1.10"}, Decimal("1.10")),
        ({"$type": "uuid", "$value": "12345678-1234-5678-1234-567812345678"}, UUID("12345678" * 4)),
        ({"$type": "bytes", "$value": "AP8="}, b"\x00\xff"),
    ],
)
def test_the_six_types_can_be_asked_for_by_name(stored: Any, value: object) -> None:
    if not isinstance(value, UUID):
        assert delivered({"a": [stored]}) == {"a": [value]}
    assert type(delivered(stored)) is type(value)
    assert flaw([[stored]]) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"$type": "nope", "$value": 1},
        {"$type": ["decimal"], "$value": 1},
        {"$type": "decimal", "$value": 1.1},
        {"$type": "decimal", "$value": "one"},
        {"$type": "datetime", "$value": "soon"},
        {"$type": "uuid", "$value": {"hex": "12"}},
        {"$type": "bytes", "$value": "no base64"},
        {"$type": "kombu", "$value": 7},
    ],
)
def test_a_typed_value_that_is_none_is_refused_and_if_inserted_arrives_as_it_stands(wrong: Any) -> None:
    errors: list[BadValue] = []
    check_payload(errors, [], {"a": [wrong]})
    assert [error.field for error in errors] == ["kwargs"]
    assert delivered({"a": [wrong]}) == {"a": [wrong]}


def test_what_a_worker_s_program_has_taught_kombu_can_be_carried_too() -> None:
    stored = from_python({"money": object()}, lambda _: {"__type__": "money", "__value__": [1, "EUR"]})
    assert to_message(stored) == {"money": {"__type__": "money", "__value__": [1, "EUR"]}}


def test_what_nests_deeper_than_any_api_lets_in_travels_as_it_stands() -> None:
    deep: Any = {"__type__": "a", "__value__": 1}
    for _ in range(400):
        deep = [deep]
    assert careful([deep], {}, json.dumps([[deep], {}])) == ([deep], {})
    errors: list[BadValue] = []
    check_payload(errors, [deep], {})
    assert len(errors) == 1


def test_the_keyword_arguments_themselves_stay_keyword_arguments() -> None:
    for kwargs in ({"__type__": "a", "__value__": 1}, {"$type": "decimal", "$value": "1"}):
        sent = json.dumps(careful([], kwargs, json.dumps([[], kwargs])))
        assert kombus_loads(sent) == [[], kwargs]


def test_what_no_message_can_carry_is_refused() -> None:
    with pytest.raises(TypeError):
        as_stored({"a": {1, 2}})


@pytest.mark.parametrize(("value", "care"), [({"a": 1}, False), ({"__type__": 1}, True), ([{"$type": 1}], True)])
def test_ordinary_arguments_are_not_looked_through(value: Any, care: bool) -> None:
    dump: Callable[[Any], str] = json.dumps
    assert may_need_care(dump(value)) is care
