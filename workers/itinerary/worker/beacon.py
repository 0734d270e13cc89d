"""Check whether this worker would get the leader's runs: the app's real configuration against the leader's beacon.

Promises a sentence that says what to change, before the worker takes any message. If no leader is active, or Redis or
the broker is away, it compares nothing and refuses nothing.
"""

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import redis
from celery import Celery
from kombu.exceptions import KombuError
from kombu.serialization import prepare_accept_content

from itinerary.protocol.keys import PREFIXES, Keys
from itinerary.protocol.wire import INFO_FIELD, PROTOCOL, PROTOCOL_FIELD, SAMPLE_QUEUE, WITHOUT_INFO, protocol_error
from itinerary.server_traits import CLUSTER, is_cluster, run_id_of
from itinerary.worker.connection import AWAY, RedisConnection

_JSON: Final = "application/json"
_CONNECT_WITHIN: Final = 5
# The leader writes its beacon and the mark every ten seconds: a broker may just have lost its data.
_MARK_WITHIN: Final = 12.0
_POLLED_EVERY: Final = 0.5
_DATABASES: Final = 16
_SHOWN: Final = 5

log = logging.getLogger("itinerary.worker")


class NotComparable(Exception):
    """No leader is active in this Redis, or a server does not answer."""


def misfit(app: Celery, connection: RedisConnection, patience: float = _MARK_WITHIN) -> str | None:
    """Why no run would ever reach this worker, and what to change; None if runs do. Raises NotComparable."""
    accepted = prepare_accept_content(app.conf.accept_content or []) or set()
    if _JSON not in accepted:
        return (
            f"accept_content is {list(app.conf.accept_content or [])}, and every run's message is JSON: add 'json', "
            f"else each is refused"
        )
    if _is_cluster(connection):
        return f"its Redis: {CLUSTER}"
    deadline = time.monotonic() + patience
    while True:
        beacon = _beacon(connection)
        if beacon is None:
            return _elsewhere(connection)
        leaders: Mapping[str, Any] = beacon["broker"]
        why = _compared(app, leaders, connection.keys)
        if why is None or time.monotonic() >= deadline or "mark" not in leaders:
            why = why or _of_unlike_rights(connection, beacon)
            error = protocol_error(PROTOCOL, beacon.get(PROTOCOL_FIELD, 1))
            if error:
                log.warning("not all of this worker's reports may be understood: %s", error)
            return why
        time.sleep(_POLLED_EVERY)


def compared(app: Celery, connection: RedisConnection) -> bool:
    """Whether the leader's configuration could be compared yet; exits if this worker would never get a run."""
    try:
        why = misfit(app, connection)
    except NotComparable as exc:
        log.info("the leader's configuration is compared later: %s", exc)
        return False
    if why is not None:
        sys.exit(f"itinerary: this worker would never get a run: {why}")
    return True


class RepeatedCheck:
    """The comparison of a worker that has started: a mismatch is only logged."""

    def __init__(self, app: Celery, connection: RedisConnection) -> None:
        self._app = app
        self._connection = connection
        self._level = logging.INFO  # at first: a leader that is started together with the worker takes longer

    def __call__(self) -> bool:
        """Whether this worker is known to get runs."""
        try:
            why = misfit(self._app, self._connection, patience=0)
        except NotComparable as exc:
            log.log(self._level, "whether this worker gets runs is not known yet: %s", exc)
            self._level = logging.WARNING
            return False
        if why is not None:
            log.error("this worker never gets a run: %s", why)
        return why is None


def _is_cluster(connection: RedisConnection) -> bool:
    try:
        return is_cluster(connection.client)
    except AWAY as exc:
        raise NotComparable(f"redis is away: {exc}") from exc


def _of_unlike_rights(connection: RedisConnection, beacon: Mapping[str, Any]) -> str | None:
    """The error if only one of leader and worker may ask for the server's run id: no claim would be granted."""
    try:
        allowed = run_id_of(connection.client) is not None
    except AWAY as exc:
        raise NotComparable(f"redis is away: {exc}") from exc
    if not allowed:
        log.warning("%s", WITHOUT_INFO)
    if allowed == beacon.get(INFO_FIELD, True):
        return None
    may, may_not = ("worker", "leader") if allowed else ("leader", "worker")
    return (
        f"the {may} may call INFO of Redis and the {may_not} may not, so that no claim would be granted: allow it to "
        f"the user of the {may_not}, or to neither"
    )


def _beacon(connection: RedisConnection) -> Mapping[str, Any] | None:
    try:
        text = connection.client.get(connection.keys.beacon)
    except AWAY as exc:
        raise NotComparable(f"redis is away: {exc}") from exc
    if not isinstance(text, str):
        return None
    try:
        beacon: Any = json.loads(text)
    except (ValueError, TypeError) as exc:
        raise NotComparable(f"the leader's beacon is not understood: {exc!r}") from exc
    if (
        isinstance(beacon, dict)
        and isinstance(beacon.get("broker"), dict)
        and isinstance(beacon.get(PROTOCOL_FIELD, 1), int)
    ):
        return beacon
    raise NotComparable("the leader's beacon is not understood")


def _elsewhere(connection: RedisConnection) -> str:
    """The error if another database of this Redis had a leader and this one never had one: a wrong setting."""
    nobody = (
        "no leader has announced itself in this Redis: start one, or give this worker its leader's ITINERARY_REDIS_URL"
    )
    own = connection.client.connection_pool.connection_kwargs.get("db", 0)
    try:
        others = _other_prefixes(connection)
        listed = ", ".join(map(repr, others[:_SHOWN]))
        if connection.client.exists(connection.keys.epoch):
            raise NotComparable(nobody + (f"; those of the key prefixes {listed} are active" if others else ""))
        if others:
            return (
                f"no leader with the key prefix {connection.keys.prefix!r} was ever active in its Redis, but those of "
                f"{listed} are: give the worker its leader's ITINERARY_KEY_PREFIX; or start its own leader first"
            )
        leads_in = _first_with_a_beacon(connection)
    except AWAY as exc:
        raise NotComparable(f"redis is away: {exc}") from exc
    if leads_in is None:
        raise NotComparable(nobody)
    return (
        f"no leader was ever active in database {own} of its Redis, but one is in database {leads_in}: let "
        f"ITINERARY_REDIS_URL, or the app's broker_url, name that one; or start the leader of database {own} first"
    )


def _other_prefixes(connection: RedisConnection) -> list[str]:
    """The prefixes whose leader is active here, without ours; none if we may not know."""
    try:
        listed: Any = connection.client.zrange(PREFIXES, 0, -1)
    except redis.ResponseError:
        return []
    return sorted(prefix for prefix in listed if prefix != connection.keys.prefix)


def _first_with_a_beacon(connection: RedisConnection) -> int | None:
    client: Any = connection.client
    one = client.client()  # its own connection, closed afterwards, since it selects other databases
    try:
        for database in range(_DATABASES):
            one.execute_command("SELECT", database)
            if one.get(connection.keys.beacon) is not None:
                return database
    except redis.ResponseError:  # fewer databases, or no permission to select one
        return None
    finally:
        one.connection.disconnect()
        one.close()
    return None


def _compared(app: Celery, leaders: Mapping[str, Any], keys: Keys) -> str | None:
    with app.connection_for_read() as connection:
        transport, where = connection.transport.driver_type, connection.as_uri()
        if transport != leaders.get("transport"):
            return (
                f"its broker is {where}, and the leader sends to {leaders.get('where')}: give the app's broker_url and "
                f"ITINERARY_BROKER_URL of the leader the same broker"
            )
        if transport != "redis":
            return None
        away: tuple[type[BaseException], ...] = (KombuError, *connection.connection_errors, *connection.channel_errors)
        try:
            connection.ensure_connection(max_retries=1, timeout=_CONNECT_WITHIN)
            return _lists_compared(connection.default_channel, where, leaders, keys)
        except away as exc:
            raise NotComparable(f"the broker is away: {exc!r}") from exc


def _lists_compared(channel: Any, where: str, leaders: Mapping[str, Any], keys: Keys) -> str | None:
    prefix = channel.global_keyprefix
    if prefix != leaders.get("prefix"):
        return (
            f"its keys begin with {prefix!r} (global_keyprefix), and the leader's with {leaders.get('prefix')!r}: set "
            f"ITINERARY_BROKER_KEY_PREFIX={prefix} for the leader and the API, or change the app's "
            f"broker_transport_options"
        )
    read = [prefix + channel._q_for_pri(SAMPLE_QUEUE, step) for step in channel.priority_steps]
    if leaders.get("list") not in read:
        return (
            f"of the queue {SAMPLE_QUEUE} it reads the lists {read}, and the leader fills {leaders.get('list')!r}: let "
            f"priority_steps in the app's broker_transport_options begin with 0"
        )
    mark = redis.Redis(connection_pool=channel.pool).get(prefix + keys.broker_mark)
    if not isinstance(mark, bytes) or mark.decode("utf-8", "replace") != leaders.get("mark"):
        return (
            f"its broker {where} is another server or database than the leader's, {leaders.get('where')}: give "
            f"the app's broker_url and ITINERARY_BROKER_URL of the leader the same one"
        )
    return None
