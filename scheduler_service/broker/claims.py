"""The leader's half of the claim: takes claims, flags cancelled attempts, reads reports left beside the stream.

Owns the low watermarks and the accepted epoch, which make it safe to forget old claims and to lose them. Promises that
no worker starts an attempt after its claim was taken here; the workers' half is itinerary.worker.claim. Never decides
which attempts to cancel. Where INFO is refused, each connection of the leader counts as a new start of the server.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import redis
from redis.commands.core import Script
from uuid_utils.compat import uuid4, uuid7

from itinerary.protocol.batches import batched
from itinerary.protocol.keys import PREFIXES, Keys
from itinerary.protocol.wire import (
    BEACON_SECONDS,
    INFO_FIELD,
    LUA_ACCEPTED,
    LUA_BELOW,
    LUA_SERVER,
    QUERY_EPOCH,
    RECALLED,
)
from itinerary.server_traits import run_id_of
from scheduler_service.broker.client import connect, redis_errors
from scheduler_service.core.leader.results import ServerEpoch
from scheduler_service.ports.broker import UNKNOWN, Claims

_BATCH: Final = 500
_A_DAY: Final = 24 * 3600
_LEADERS_TOKEN: Final = "leader"
# The message may lie in its queue as long, if another run that is pending holds the low watermark down.
_RECALLED_SECONDS: Final = 7 * _A_DAY

# KEYS: epoch, the claim of each attempt, server's mark. ARGV: token, seconds. The leader's own token wins again: if we
# die after the script ran, the next leader takes the same claims and gets the same answer.
_TAKE: Final = (
    LUA_SERVER
    + LUA_ACCEPTED
    + """
if accepted ~= server then return false end
local won = {}
for i = 2, #KEYS - 1 do
  local holder = redis.call('GET', KEYS[i])
  if not holder or string.match(holder, '^"""
    + RECALLED
    + """') then
    redis.call('SET', KEYS[i], ARGV[1], 'EX', ARGV[2])
    holder = ARGV[1]
  end
  won[#won + 1] = holder == ARGV[1] and 1 or 0
end
return won
"""
)

# KEYS: epoch, the claim of each attempt, server's mark. ARGV: seconds, then the seq of each attempt's last message. A
# mark never goes down.
_RECALL: Final = (
    LUA_SERVER
    + LUA_ACCEPTED
    + LUA_BELOW
    + """
if accepted ~= server then return false end
local won = {}
for i = 2, #KEYS - 1 do
  local holder = redis.call('GET', KEYS[i])
  local recalled = holder and string.match(holder, '^"""
    + RECALLED
    + """(%d+)$')
  if not holder or (recalled and below(recalled, ARGV[i])) then
    redis.call('SET', KEYS[i], '"""
    + RECALLED
    + """' .. ARGV[i], 'EX', ARGV[1])
  end
  won[#won + 1] = (not holder or recalled) and 1 or 0
end
return won
"""
)

# KEYS: accepted epoch, current epoch, server's mark. ARGV: name of the epoch, low watermark.
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

# KEYS: epoch, names of the queues that have a low watermark of their own, these watermarks, server's mark. ARGV: the
# low watermark of all queues, then name and new value of each queue's own. A queue's own is dropped once that of all
# queues has reached it: both then refuse the same messages. Before the epoch is accepted, only those of single queues
# are kept.
_RAISE: Final = (
    LUA_SERVER
    + LUA_ACCEPTED
    + LUA_BELOW
    + """
local everywhere = '0'
if accepted == server then
  everywhere = bottom
  if below(bottom, ARGV[1]) then
    everywhere = ARGV[1]
    redis.call('SET', KEYS[1], server .. ':' .. everywhere)
  end
end
local floors = {}
for i = 3, #KEYS - 1 do
  local name, floor = ARGV[2 * i - 4], ARGV[2 * i - 3]
  local kept = redis.call('GET', KEYS[i])
  if kept and not below(kept, floor) then floor = kept end
  if below(everywhere, floor) then
    redis.call('SET', KEYS[i], floor)
    redis.call('SADD', KEYS[2], name)
  else
    redis.call('DEL', KEYS[i])
    redis.call('SREM', KEYS[2], name)
    floor = everywhere
  end
  floors[#floors + 1] = floor
end
return floors
"""
)


class RedisClaims(Claims):
    """The Claims port on Redis 6.2 or later, or Valkey. Safe to use from several threads."""

    def __init__(self, redis_url: str, key_prefix: str = "") -> None:
        self._keys = Keys(key_prefix)
        self._client = connect(redis_url)
        self._take = self._client.register_script(_TAKE)
        self._recall = self._client.register_script(_RECALL)
        self._query_epoch = self._client.register_script(QUERY_EPOCH)
        self._accept = self._client.register_script(_ACCEPT)
        self._raise = self._client.register_script(_RAISE)
        self._kept_from = 0
        # The connection over which the epoch is queried, and the last tick that went over it.
        self._asking: redis.Redis | None = None
        self._tick = ""

    def close(self) -> None:
        """Close the connection."""
        self._disconnect()
        self._client.close()

    def _disconnect(self) -> None:
        asking, self._asking, self._tick = self._asking, None, ""
        if asking is not None:
            asking.close()

    def take(self, task_ids: Sequence[str]) -> list[bool] | None:
        """Take the claims with one script per batch; a repeated call gives the same answers."""
        return self._won(self._take, task_ids, lambda batch: [_LEADERS_TOKEN, _A_DAY])

    def recall(self, messages: Sequence[tuple[str, int]]) -> list[bool] | None:
        """Set the marks with one script per batch; a repeated call gives the same answers."""
        seqs = dict(messages)
        return self._won(self._recall, list(seqs), lambda batch: [_RECALLED_SECONDS, *(seqs[one] for one in batch)])

    def _won(
        self, script: Script, task_ids: Sequence[str], arguments: Callable[[Sequence[str]], list[str | int]]
    ) -> list[bool] | None:
        won: list[bool] = []
        for batch in batched(task_ids, _BATCH):
            keys = [self._keys.epoch, *(self._keys.claim(task_id) for task_id in batch), self._keys.server_mark]
            with redis_errors():
                answer: Any = script(keys=keys, args=arguments(batch))
            if answer is None:
                return None
            won.extend(bool(one) for one in answer)
        return won

    def flag(self, task_ids: Sequence[str]) -> None:
        """SET the cancel flags for a day."""
        for batch in batched(task_ids, _BATCH):
            with redis_errors(), self._client.pipeline(transaction=False) as pipe:
                for task_id in batch:
                    pipe.set(self._keys.cancel(task_id), "1", ex=_A_DAY)
                pipe.execute()

    def results(self, task_ids: Sequence[str]) -> list[Mapping[str, str] | None]:
        """Read the hashes that workers wrote in the same MULTI as their stream entries."""
        found: list[Mapping[str, str] | None] = []
        for batch in batched(task_ids, _BATCH):
            with redis_errors(), self._client.pipeline(transaction=False) as pipe:
                for task_id in batch:
                    pipe.hgetall(self._keys.result(task_id))
                found.extend(fields or None for fields in pipe.execute())
        return found

    def forget_results(self, task_ids: Sequence[str]) -> None:
        """UNLINK the result keys."""
        self._unlink([self._keys.result(task_id) for task_id in task_ids])

    def forget(self, task_ids: Sequence[str]) -> None:
        """UNLINK all three keys of each attempt."""
        of = self._keys
        self._unlink([key(task_id) for task_id in task_ids for key in (of.claim, of.cancel, of.result)])

    def _unlink(self, keys: Sequence[str]) -> None:
        """UNLINK the keys in one round trip, by commands that leave others their turn."""
        with redis_errors(), self._client.pipeline(transaction=False) as pipe:
            for batch in batched(keys, _BATCH):
                pipe.unlink(*batch)
            pipe.execute()

    def raise_watermarks(self, watermarks: Mapping[str, int], lowest: int) -> dict[str, int]:
        """Raise the watermarks with one script per batch; each call also checks some other queues, all in turn."""
        raised: dict[str, int] = {}
        for batch in batched([*watermarks, *(queue for queue in self._some_kept() if queue not in watermarks)], _BATCH):
            keys = [self._keys.epoch, self._keys.watermarks, *map(self._keys.watermark, batch), self._keys.server_mark]
            pairs = [part for queue in batch for part in (queue, watermarks.get(queue, 0))]
            with redis_errors():
                answer: Any = self._raise(keys=keys, args=[lowest, *pairs])
            raised.update(
                (queue, int(watermark)) for queue, watermark in zip(batch, answer, strict=True) if queue in watermarks
            )
        return raised

    def _some_kept(self) -> list[str]:
        with redis_errors():
            answer: Any = self._client.sscan(self._keys.watermarks, self._kept_from, count=_BATCH)
        self._kept_from, names = answer
        return list(names)

    def query_epoch(self) -> ServerEpoch:
        """Read the current epoch; the first process to query it names it."""
        with redis_errors():
            if self._asking is not None:
                try:
                    return self._epoch_by(self._asking)
                except redis.ConnectionError:
                    self._disconnect()  # a new connection, so that the script takes the server for a new one
            client: Any = self._client
            asking: redis.Redis = client.client()
            self._asking = asking
            return self._epoch_by(asking)

    def _epoch_by(self, client: redis.Redis) -> ServerEpoch:
        of, tick, last, self._tick = self._keys, uuid4().hex, self._tick, ""
        answer: Any = self._query_epoch(
            keys=[of.epoch, of.epoch_seen, of.server_mark], args=[str(uuid7()), tick, last], client=client
        )
        self._tick = tick
        name, accepted, watermark = answer
        return ServerEpoch(name, bool(accepted), int(watermark))

    def accept(self, name: str, watermark: int) -> bool:
        """Accept the epoch in one script, all or nothing: a wipe in between leaves nothing accepted."""
        of = self._keys
        with redis_errors():
            return bool(self._accept(keys=[of.epoch, of.epoch_seen, of.server_mark], args=[name, watermark]))

    def announce(self, beacon: Mapping[str, Any]) -> None:
        """SET the beacon for a minute, and list the prefix for workers that have another."""
        now = time.time()
        with redis_errors():
            shown = {**beacon, INFO_FIELD: run_id_of(self._client) is not None}
        with redis_errors(), self._client.pipeline(transaction=False) as pipe:
            pipe.set(self._keys.beacon, json.dumps(shown), ex=BEACON_SECONDS)
            pipe.zadd(PREFIXES, {self._keys.prefix: now})
            pipe.zremrangebyscore(PREFIXES, "-inf", now - BEACON_SECONDS)
            pipe.expire(PREFIXES, BEACON_SECONDS)
            announced, *_ = pipe.execute(raise_on_error=False)  # a user may have no right to the shared key
            if isinstance(announced, Exception):
                raise announced

    def eviction_policy(self) -> str:
        """Read the policy from INFO, since CONFIG is often forbidden; "unknown" where INFO is too."""
        with redis_errors():
            try:
                memory: Any = self._client.info("memory")
            except redis.ResponseError:
                return UNKNOWN
        return str(memory.get("maxmemory_policy", UNKNOWN))
