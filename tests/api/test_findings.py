"""What doctor says of one check."""

from itinerary.protocol.errors import StoreUnavailable
from scheduler_service.cli.findings import found


def _checked(words: str) -> str:
    def check() -> str:
        raise StoreUnavailable(words)

    return found("database", check, "check that it is running, then run `itinerary migrate`").line


def test_a_cure_that_the_error_names_is_said_once() -> None:
    old = "the database's schema is 0021, not 0022: run `itinerary migrate`"
    assert _checked(old).split(maxsplit=2)[2] == old
    assert _checked("connection refused").endswith("; check that it is running, then run `itinerary migrate`")
