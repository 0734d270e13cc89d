"""What is written on the wire: which releases understand each other."""

import pytest

from itinerary.protocol.wire import PROTOCOL, protocol_error


@pytest.mark.parametrize(
    ("workers", "services", "sentence"),
    [
        (1, 1, None),
        (1, 2, None),
        (2, 1, "the worker's protocol 2 is newer than the service's 1: upgrade leader and API first"),
        (1, 3, "the worker's protocol 1 is too old for the service's 3: upgrade the worker"),
        (PROTOCOL, PROTOCOL, None),
    ],
)
def test_a_service_understands_its_own_protocol_and_the_one_before(
    workers: int, services: int, sentence: str | None
) -> None:
    assert protocol_error(workers, services) == sentence
