"""Every key of ours in Redis, with the prefix of its installation. All processes of an installation have the same.

Promises that two installations with different prefixes share no key but `PREFIXES`. Keys of queues are Celery's: they
have its own `global_keyprefix`. Pure.
"""

import re
from typing import Final

from itinerary.protocol.errors import BadValue

KEY_PREFIX_VARIABLE: Final = "ITINERARY_KEY_PREFIX"
PREFIX_PATTERN: Final = r"^[!-~]{1,128}$"
# The prefixes whose leader was active lately, by its clock: the one key that installations share.
PREFIXES: Final = "itinerary:prefixes"


class Keys:
    """The keys of the installation with this prefix; the names after it are stored, and stay."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix: Final = prefix
        self.inbox: Final = f"{prefix}itinerary:inbox"
        self.inbox_dead: Final = f"{prefix}itinerary:inbox:dead"
        # The epoch of these data: the one that the leader accepted ("run id of the server:watermark of all queues"),
        # the current one ("run id:its own name", written by the first process to query it), and the same of the
        # broker's Redis, beside the queues.
        self.epoch: Final = f"{prefix}itinerary:generation"
        self.epoch_seen: Final = f"{prefix}itinerary:generation:seen"
        self.epoch_of_broker: Final = f"{prefix}itinerary:generation:broker"
        # A hash with the mark that stands for the server's run id where INFO is refused, and the leader's tick.
        self.server_mark: Final = f"{prefix}itinerary:generation:server"
        # The queues whose own low watermark is above that of all queues.
        self.watermarks: Final = f"{prefix}itinerary:floors"
        # The leader's beacon: workers compare their broker with the leader's. A mark beside the queues of that broker
        # identifies the same server, database and prefix under any name.
        self.beacon: Final = f"{prefix}itinerary:beacon"
        self.broker_mark: Final = f"{prefix}itinerary:broker"
        # The same mark beside inbox and claims; the leader records both in the database, to detect processes with
        # other settings.
        self.redis_mark: Final = f"{prefix}itinerary:redis"
        # The stream of ended attempts' logs, until the leader has stored them, and the sign that somebody watches one
        # that runs.
        self.logs: Final = f"{prefix}itinerary:logs"
        self.watched: Final = f"{prefix}itinerary:logs:watched"

    def claim(self, task_id: str) -> str:
        """The key with the token of the process that claimed this attempt."""
        return f"{self.prefix}itinerary:claim:{task_id}"

    def cancel(self, task_id: str) -> str:
        """The key that exists while this attempt is cancelled: the claim refuses it, `cancelled()` sees it."""
        return f"{self.prefix}itinerary:cancel:{task_id}"

    def watermark(self, queue: str) -> str:
        """The key with the lowest number of a message of this queue that may still start something."""
        return f"{self.prefix}itinerary:floor:{queue}"

    def result(self, task_id: str) -> str:
        """The key with this attempt's terminal report, until the leader has committed it."""
        return f"{self.prefix}itinerary:result:{task_id}"

    def watch(self, task_id: str) -> str:
        """The key that exists while somebody watches this attempt's log."""
        return f"{self.prefix}itinerary:logs:watch:{task_id}"

    def live_log(self, task_id: str) -> str:
        """The stream of this attempt's newest lines, which exists while somebody watches it."""
        return f"{self.prefix}itinerary:logs:live:{task_id}"

    def reply(self, name: str) -> str:
        """The list on which one asker waits for the leader's answer."""
        return f"{self.prefix}itinerary:reply:{name}"


def read_prefix(text: str | None) -> str:
    """A prefix as an environment gives it; BadValue if it could not be one."""
    if text and not re.fullmatch(PREFIX_PATTERN, text):
        raise BadValue(KEY_PREFIX_VARIABLE, text, "give up to 128 printable ASCII letters without a space")
    return text or ""
