"""The leader's side of the claim: taking it, flagging attempts as unwanted, and the reports left beside the stream.

Promises that an attempt whose claim was taken here is never started by a worker that asks afterwards (its half of the
script is workers.claim). Never decides which attempts are unwanted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from scheduler_service.adapters.redis_client import connect, redis_errors
from scheduler_service.core.wire import cancel_key, claim_key, result_key

_BATCH: Final = 500
_A_DAY: Final = 24 * 3600
_LEADERS_TOKEN: Final = "leader"

# KEYS: the claim of each attempt. ARGV: token, seconds. Our own token is told yes again: if we die after the script
# ran, the next leader takes the same claims and hears the same answer.
_TAKE: Final = """
local won = {}
for i = 1, #KEYS do
  local holder = redis.call('GET', KEYS[i])
  if not holder then
    redis.call('SET', KEYS[i], ARGV[1], 'EX', ARGV[2])
    holder = ARGV[1]
  end
  won[#won + 1] = holder == ARGV[1] and 1 or 0
end
return won
"""


class RedisClaims:
    """The Claims port on Redis 6.2 or later, or Valkey. Safe to use from several threads."""

    def __init__(self, redis_url: str) -> None:
        self._client = connect(redis_url)
        self._take = self._client.register_script(_TAKE)

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()

    def take(self, task_ids: Sequence[str]) -> list[bool]:
        """One script a batch; asking again gives the same answers."""
        won: list[bool] = []
        for batch in _batches(task_ids):
            keys = [claim_key(task_id) for task_id in batch]
            with redis_errors():
                answer: Any = self._take(keys=keys, args=[_LEADERS_TOKEN, _A_DAY])
            won.extend(bool(one) for one in answer)
        return won

    def flag(self, task_ids: Sequence[str]) -> None:
        """SET, a day long."""
        for batch in _batches(task_ids):
            with redis_errors(), self._client.pipeline(transaction=False) as pipe:
                for task_id in batch:
                    pipe.set(cancel_key(task_id), "1", ex=_A_DAY)
                pipe.execute()

    def results(self, task_ids: Sequence[str]) -> list[Mapping[str, str] | None]:
        """The hashes that the workers wrote in one MULTI with their stream entries."""
        found: list[Mapping[str, str] | None] = []
        for batch in _batches(task_ids):
            with redis_errors(), self._client.pipeline(transaction=False) as pipe:
                for task_id in batch:
                    pipe.hgetall(result_key(task_id))
                found.extend(fields or None for fields in pipe.execute())
        return found

    def forget(self, task_ids: Sequence[str]) -> None:
        """UNLINK."""
        for batch in _batches(task_ids):
            with redis_errors():
                self._client.unlink(*(result_key(task_id) for task_id in batch))


def _batches(task_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (task_ids[start : start + _BATCH] for start in range(0, len(task_ids), _BATCH))
