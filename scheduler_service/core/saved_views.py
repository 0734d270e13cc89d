"""Saved views: the address of a list with its filters under a name, for all or for one person. Values only."""

import re
from dataclasses import dataclass
from typing import Final

from itinerary.protocol.instants import Instant

VIEW_NAME: Final = re.compile(r"\w([\w .,:()&+-]{0,58}\w)?")
SHARED: Final = ""
"""The owner of views that all see."""


@dataclass(frozen=True, slots=True)
class SavedView:
    """A view; `owner` is who alone sees it, or `SHARED`."""

    owner: str
    name: str
    address: str
    saved_by: str
    updated_at: Instant

    @property
    def is_personal(self) -> bool:
        """Whether one person alone sees it."""
        return self.owner != SHARED
