"""The one exception tree. Each class says who can correct it."""

import copyreg
import pickle
from collections.abc import Sequence
from typing import Any


class ItineraryError(Exception):
    """Base of every error that this product raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception's own would call the class with the message, which is not what these take.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class BadValue(ItineraryError):
    """A value that its sender can correct: names the field, the value and the allowed values.

    In another process, a value that cannot be pickled is its repr.
    """

    def __init__(self, field: str, value: Any, allowed: str) -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        shown = repr(value)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        # A missing value is not shown.
        super().__init__(f"{field}: {allowed}" if value is None else f"{field}: {shown} is not accepted; {allowed}")

    def __reduce__(self) -> tuple[Any, ...]:
        create, args, fields = super().__reduce__()
        try:
            pickle.dumps(self.value)
        except Exception:  # noqa: BLE001 - whatever the type of a value refused itself by
            fields = {**fields, "value": repr(self.value)}
        return create, args, fields

    def under(self, prefix: str) -> "BadValue":
        """The same error, with its field named from one level further out."""
        return type(self)(f"{prefix}.{self.field}" if self.field else prefix, self.value, self.allowed)


class TooLarge(BadValue):
    """A value over its size limit; its sender can make it smaller."""


class BadValues(ItineraryError):
    """Several bad values of one request, so that its sender can correct them at once."""

    def __init__(self, errors: Sequence[BadValue]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(str(e) for e in self.errors))


class NotFound(ItineraryError):
    """The named job or run does not exist; the caller can name another."""


class Conflict(ItineraryError):
    """The request contradicts the stored state; the caller reads that and decides again.

    `kind` is the last part of the problem's type over HTTP.
    """

    kind = "conflict"

    def __init__(self, message: str, kind: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind or self.kind


class StaleVersion(Conflict):
    """The job was changed since the caller read it; the caller reads it again."""

    kind = "stale-version"


class IllegalTransition(ItineraryError):
    """A transition that the state machine does not have: a programming error of ours."""

    def __init__(self, run_id: str, state: str, event: str) -> None:
        self.run_id, self.state, self.event = run_id, state, event
        super().__init__(f"run {run_id}: no move for event {event!r} from state {state!r}")


class MalformedEntry(ItineraryError):
    """An inbox entry that cannot be decoded; it is dead-lettered with this reason, and its sender can correct it."""


class StoreUnavailable(ItineraryError):
    """The database does not answer or refuses service for now; waiting or the operator helps."""


class StatementTimedOut(StoreUnavailable):
    """The database answers, but ended this statement at its time limit; a repeated statement may end the same way."""


class StoreRefused(StoreUnavailable):
    """The database does not let this program connect, however often it asks; only the operator can correct that."""


class StoreBusy(StoreUnavailable):
    """Others are changing the same rows (a deadlock); nothing of this was stored, and a repeat should succeed."""


class RowRefused(ItineraryError):
    """The database will never take this row as it is; it is quarantined with the reason."""


class BrokerUnavailable(ItineraryError):
    """Redis does not answer; the last command may or may not have been carried out. Waiting helps."""


class LeaseLost(ItineraryError):
    """This process no longer leads: the lease is at another term. It stops leading at once."""
