"""The numbers of messages."""

from dataclasses import dataclass
from typing import Self


@dataclass(slots=True)
class MessageNumbers:
    """The number (seq) of the last message: term in the high bits, a counter in the low. It grows across leaders."""

    last: int

    @classmethod
    def of_term(cls, term: int) -> Self:
        """Begin above the numbers of all earlier terms."""
        return cls(term << 32)

    def next(self) -> int:
        """The number of the next message."""
        self.last += 1
        return self.last

    def raise_to(self, number: int) -> None:
        """Continue above `number`, because Redis remembers it from another database."""
        self.last = max(self.last, number)
