"""Port to the sign-ins under way. State and browser are stored by their SHA-256."""

from typing import Protocol

from itinerary.protocol.instants import Instant
from scheduler_service.core.sign_ins import SignIn


class SignInStore(Protocol):
    """Sign-ins under way, each of which is taken once, by the browser that began it."""

    def begin(self, state_hash: str, browser_hash: str, sign_in: SignIn, now: Instant) -> None:
        """Store one; forget those that took too long, and the oldest beyond a bound: nobody is refused."""

    def take(self, state_hash: str, browser_hash: str, now: Instant) -> SignIn | None:
        """Take the browser's sign-in of this state; None if there is none, or no longer."""
