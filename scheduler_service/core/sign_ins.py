"""Sign-ins under way: of browsers that were sent to the identity provider and have not come back. Values only."""

from dataclasses import dataclass, field

from itinerary.protocol.instants import MINUTE, Duration

LASTS: Duration = 10 * MINUTE
"""How long a browser may stay at the provider."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """The nonce of the identity token and the verifier of the code, which the answer must fit; and where to go then."""

    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    go_to: str
