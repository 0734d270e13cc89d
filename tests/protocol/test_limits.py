"""Limits and keys as JSON: what is accepted, what is refused by which field, what a key is taken from."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.protocol.errors import BadValue
from itinerary.protocol.limits import (
    JOB_LIMITS,
    MOST_KEY,
    RUN_LIMITS,
    JobLimit,
    Key,
    KeyFrom,
    LimitUse,
    fair_key_of,
    lane_of,
    limits_of,
    limits_text,
    uses_of,
)

FROM = {"from": "kwargs.tenant"}
USES = (LimitUse("tenant", "acme"), LimitUse("api"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["api", "kwargs.a", "args.0", "a" * 257]),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["name", "key", "from", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("of", [RUN_LIMITS, JOB_LIMITS, Key(), Key(of_job=True)])
@given(value=JSON)
def test_any_json_is_read_and_written_again_or_refused_by_a_field_of_its_own(of: Any, value: Any) -> None:
    refused, read = "", None
    try:
        read = of.read(value, "limits")
    except BadValue as exc:
        refused = exc.field
    if refused:
        assert refused.split(".")[0] == "limits"
    else:
        assert of.read(of.write(read), "limits") == read


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("api", "limits"),
        ({"name": "api"}, "limits"),
        (["a", "b", "c", "d", "e"], "limits"),
        ([1], "limits.0"),
        (["api", ""], "limits.1"),
        (["queue:mail"], "limits.0"),
        ([{"key": "k"}], "limits.0.name"),
        ([{"name": "api", "keys": "k"}], "limits.0.keys"),
        ([{"name": "api", "key": ""}], "limits.0.key"),
        ([{"name": "api", "key": 7}], "limits.0.key"),
        ([{"name": "api", "key": "k" * (MOST_KEY + 1)}], "limits.0.key"),
        ([{"name": "api", "key": "a\0"}], "limits.0.key"),
        ([{"name": "api", "key": "\ud800"}], "limits.0.key"),
        ([{"name": "api", "key": FROM}], "limits.0.key"),
        (["api", {"name": "api"}], "limits.1"),
        ([{"name": "a", "key": "k"}, {"name": "a", "key": "l"}, {"name": "a", "key": "k"}], "limits.2"),
    ],
)
def test_limits_of_a_run_are_refused_by_name(value: Any, field: str) -> None:
    with pytest.raises(BadValue) as refused:
        RUN_LIMITS.read(value, "limits")
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ({}, "key"), ({"from": "kwargs.a", "or": "x"}, "key"), ({"from": "tenant"}, "key.from"),
        ({"from": "kwargs"}, "key.from"), ({"from": "kwargs."}, "key.from"), ({"from": 1}, "key.from"),
        ({"from": "kwargs." + "a" * MOST_KEY}, "key.from"), ({"from": "kwargs.\0"}, "key.from"),
    ],
)  # fmt: skip
def test_the_place_of_a_key_is_a_path_of_an_argument(key: Any, field: str) -> None:
    with pytest.raises(BadValue) as refused:
        Key(of_job=True).read(key, "key")
    assert refused.value.field == field


def test_a_limit_may_be_named_with_two_keys() -> None:
    given = ["api", {"name": "tenant", "key": "a"}, {"name": "tenant", "key": FROM}]
    read = JOB_LIMITS.read(given, "limits")
    assert read == (JobLimit("api"), JobLimit("tenant", "a"), JobLimit("tenant", KeyFrom("kwargs.tenant")))
    assert JOB_LIMITS.write(read) == given
    assert RUN_LIMITS.read(given[:2], "limits") == read[:2]


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("kwargs.tenant", "acme"), ("args.0", "7"), ("kwargs.order.lines.1.sku", "x"), ("kwargs.0", "nought"),
        ("kwargs.gone", None), ("args.2", None), ("args.tenant", None), ("args.1", None), ("kwargs.order", None),
        ("kwargs.none", None), ("kwargs.empty", None), ("kwargs.long", None), ("kwargs.yes", None),
        ("kwargs.large", None), ("kwargs.part", None), ("kwargs.tenant.0", None),
    ],
)  # fmt: skip
def test_a_key_is_a_text_or_a_whole_number_among_the_arguments(path: str, key: str | None) -> None:
    order = {"lines": [None, {"sku": "x"}]}
    kwargs = {
        "tenant": "acme", "order": order, "0": "nought", "none": None, "empty": "", "long": "a" * 257, "yes": True,
        "large": 2**63, "part": 1.5,
    }  # fmt: skip
    if key is not None:
        assert KeyFrom(path).of([7, 1.5], kwargs) == key
        return
    with pytest.raises(BadValue) as refused:
        KeyFrom(path).of([7, 1.5], kwargs)
    assert refused.value.field == path


def test_a_key_that_the_arguments_lack_costs_its_limit_only_and_is_named() -> None:
    limits = (JobLimit("api"), JobLimit("tenant", KeyFrom("kwargs.tenant")), JobLimit("user", KeyFrom("args.0")))
    errors: list[BadValue] = []
    assert uses_of(limits, KeyFrom("kwargs.tenant"), ["u"], {}, errors) == ((("api", None), ("user", "u")), None)
    assert [error.field for error in errors] == ["kwargs.tenant", "kwargs.tenant"]
    twice = (JobLimit("tenant", "u"), JobLimit("tenant", KeyFrom("args.0")))
    assert uses_of(twice, "fair", ["u"], {}, []) == ((("tenant", "u"),), "fair")


@pytest.mark.parametrize(
    "text", ["", "{", "5", "null", '[["a"]]', '["ab", 5]', "[[1, null]]", '[["a", {}]]', '[["a", 1]]']
)
def test_a_stored_form_that_somebody_else_wrote_is_an_error_that_readers_know(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        limits_of(text)
    assert limits_of(str(limits_text(USES))) == USES


def test_runs_of_equal_limits_share_one_object() -> None:
    first, second = (uses_of((JobLimit("tenant", KeyFrom("args.0")),), None, ["u"], {}, [])[0] for _ in range(2))
    assert first is second


def test_a_lane_fits_an_index_however_long_its_keys_are() -> None:
    longest = [LimitUse(f"limit-{number}", "\U0001f600" * MOST_KEY) for number in range(4)]
    lanes = {lane_of(longest), lane_of(longest[:3]), lane_of(list(reversed(longest)))}
    assert len(lanes) == 2
    assert max(len(lane.encode()) for lane in [*lanes, lane_of((), longest[0].key)]) < 1_100


def test_a_lane_tells_the_fair_key_that_made_it() -> None:
    assert fair_key_of(lane_of((), "job:key:1", "nightly")) == "job:key:1"
    assert fair_key_of(lane_of((), None, "key:1")) is None
    assert fair_key_of(lane_of((LimitUse("tenant", "a"),), "acme")) is None
