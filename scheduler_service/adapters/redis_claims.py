"""The leader's side of the claim: taking it, flagging attempts as unwanted, and the reports left beside the stream.

Owns the floors and the generation, by which claims of ended attempts can be forgotten and lost ones do no harm.
Promises that an attempt whose claim was taken here is never started by a worker that asks afterwards (its half of the
script is workers.claim). Never decides which attempts are unwanted. Needs the right to INFO.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from uuid_utils.compat import uuid7

from scheduler_service.adapters.redis_client import connect, redis_errors
from scheduler_service.core.feedback import ServerGeneration
from scheduler_service.core.wire import (
    BEACON,
    BEACON_SECONDS,
    GENERATION,
    GENERATION_SEEN,
    LOOK,
    LUA_ACCEPTED,
    LUA_BELOW,
    LUA_SERVER,
    cancel_key,
    claim_key,
    floor_key,
    result_key,
)

_BATCH: Final = 500
_A_DAY: Final = 24 * 3600
_LEADERS_TOKEN: Final = "leader"

# KEYS: generation, then the claim of each attempt. ARGV: token, seconds. Our own token is told yes again: if we die
# after the script ran, the next leader takes the same claims and hears the same answer.
_TAKE: Final = (
    LUA_SERVER
    + LUA_ACCEPTED
    + """
if accepted ~= server then return false end
local won = {}
for i = 2, #KEYS do
  local holder = redis.call('GET', KEYS[i])
  if not holder then
    redis.call('SET', KEYS[i], ARGV[1], 'EX', ARGV[2])
    holder = ARGV[1]
  end
  won[#won + 1] = holder == ARGV[1] and 1 or 0
end
return won
"""
)

# KEYS: generation, generation seen. ARGV: the name of the generation, the floor.
_ACCEPT: Final = (
    LUA_SERVER
    + LUA_ACCEPTED
    + LUA_BELOW
    + """
if redis.call('GET', KEYS[2]) ~= ARGV[1] or string.sub(ARGV[1], 1, #server + 1) ~= server .. ':' then return 0 end
local floor = ARGV[2]
if bottom and below(floor, bottom) then floor = bottom end
redis.call('SET', KEYS[1], server .. ':' .. floor)
return 1
"""
)

# KEYS: floors. ARGV: their new values.
_RAISE: Final = (
    LUA_BELOW
    + """
local floors = {}
for i = 1, #KEYS do
  floors[i] = redis.call('GET', KEYS[i])
  if not floors[i] or below(floors[i], ARGV[i]) then
    redis.call('SET', KEYS[i], ARGV[i])
    floors[i] = ARGV[i]
  end
end
return floors
"""
)


class RedisClaims:
    """The Claims port on Redis 6.2 or later, or Valkey. Safe to use from several threads."""

    def __init__(self, redis_url: str) -> None:
        self._client = connect(redis_url)
        self._take = self._client.register_script(_TAKE)
        self._look = self._client.register_script(LOOK)
        self._accept = self._client.register_script(_ACCEPT)
        self._raise = self._client.register_script(_RAISE)

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()

    def take(self, task_ids: Sequence[str]) -> list[bool] | None:
        """One script a batch; asking again gives the same answers."""
        won: list[bool] = []
        for batch in _batches(task_ids):
            keys = [GENERATION, *(claim_key(task_id) for task_id in batch)]
            with redis_errors():
                answer: Any = self._take(keys=keys, args=[_LEADERS_TOKEN, _A_DAY])
            if answer is None:
                return None
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

    def forget_results(self, task_ids: Sequence[str]) -> None:
        """UNLINK."""
        for batch in _batches(task_ids):
            with redis_errors():
                self._client.unlink(*(result_key(task_id) for task_id in batch))

    def forget(self, task_ids: Sequence[str]) -> None:
        """UNLINK of all three keys."""
        for batch in _batches(task_ids):
            keys = [key(task_id) for task_id in batch for key in (claim_key, cancel_key, result_key)]
            with redis_errors():
                self._client.unlink(*keys)

    def raise_floors(self, floors: Mapping[str, int]) -> dict[str, int]:
        """One script a batch."""
        raised: dict[str, int] = {}
        for batch in _batches(list(floors)):
            keys = [floor_key(queue) for queue in batch]
            with redis_errors():
                answer: Any = self._raise(keys=keys, args=[floors[queue] for queue in batch])
            raised.update((queue, int(floor)) for queue, floor in zip(batch, answer, strict=True))
        return raised

    def look(self) -> ServerGeneration:
        """Whoever looks first at a generation gives it its name."""
        with redis_errors():
            answer: Any = self._look(keys=[GENERATION, GENERATION_SEEN], args=[str(uuid7())])
        name, accepted, floor = answer
        return ServerGeneration(name, bool(accepted), int(floor))

    def accept(self, name: str, floor: int) -> bool:
        """All or nothing, in one script: a wipe in between leaves nothing accepted."""
        with redis_errors():
            return bool(self._accept(keys=[GENERATION, GENERATION_SEEN], args=[name, floor]))

    def announce(self, beacon: Mapping[str, Any]) -> None:
        """SET, a minute long."""
        with redis_errors():
            self._client.set(BEACON, json.dumps(dict(beacon)), ex=BEACON_SECONDS)

    def eviction_policy(self) -> str:
        """INFO, since CONFIG is often forbidden."""
        with redis_errors():
            memory: Any = self._client.info("memory")
        return str(memory.get("maxmemory_policy", "unknown"))


def _batches(task_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (task_ids[start : start + _BATCH] for start in range(0, len(task_ids), _BATCH))
