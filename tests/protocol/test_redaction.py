"""Hidden values: never shown, never lost by sending back what was shown."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from itinerary.protocol import redaction
from itinerary.protocol.errors import BadValue
from itinerary.protocol.redaction import DEFAULT_KEYS, MASK, is_hidden, redacted, restored, unmasked, use_keys
from scheduler_service.broker.message import _arguments, _hiding

STORED: dict[str, Any] = {"headers": {"Authorization": "Bearer s3cr3t"}, "to": [{"name": "a", "dbPassword": "s3cr3t"}]}


@pytest.fixture(autouse=True)
def _default_keys() -> Iterator[None]:
    yield
    use_keys(DEFAULT_KEYS)


@pytest.mark.parametrize("name", ["password", "PASSWORD", "dbPassword", "X-Api-Key", "aws_secret_access_key"])
def test_names_are_known_in_any_spelling(name: str) -> None:
    assert is_hidden(name)


@pytest.mark.parametrize("name", ["max_tokens", "token_count", "passwordless", "user", ""])
def test_other_names_are_shown(name: str) -> None:
    assert not is_hidden(name)


def test_hidden_values_are_masked_at_any_depth_and_nothing_else_is_copied() -> None:
    assert "s3cr3t" not in json.dumps(redacted(STORED))
    plain = {"a": [1, {"b": 2}], "password": None, "token": {"$env": "TOKEN"}}
    assert redacted(plain) is plain


def test_what_was_shown_and_sent_back_is_what_is_stored() -> None:
    assert restored(json.loads(json.dumps(redacted(STORED))), STORED, "kwargs") == STORED


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"password": MASK}, "kwargs.password"),
        ({"to": [{"name": "b", "dbPassword": MASK}]}, "kwargs.to.0.dbPassword"),
        ({"to": [{"name": "x"}, {"name": "a", "dbPassword": MASK}]}, "kwargs.to.1.dbPassword"),
    ],
)
def test_a_mask_with_nothing_behind_it_is_refused_by_name(sent: dict[str, Any], field: str) -> None:
    with pytest.raises(BadValue) as refused:
        unmasked({"kwargs": sent}, [], STORED)
    assert refused.value.field == field


def test_messages_show_the_mask_and_carry_the_value() -> None:
    message = _arguments([], STORED)
    assert b"s3cr3t" not in message["kwargsrepr"]
    assert MASK.encode() in message["kwargsrepr"]
    assert _hiding([1], {"n": 1}) == {}
    assert "s3cr3t" not in _hiding([], STORED)["kwargsrepr"]


def test_the_names_are_a_setting() -> None:
    use_keys(["pin"])
    assert redaction.redacted({"pin": "1", "password": "x"}) == {"pin": MASK, "password": "x"}
    use_keys([])
    assert redaction.redacted({"password": "x"}) == {"password": "x"}
