"""SignInStore in SQL: taking one deletes it in the same statement, so that no answer counts twice."""

from typing import Final

from sqlalchemy import delete, insert, select

from itinerary.protocol.instants import Instant
from scheduler_service.core.sign_ins import LASTS, SignIn
from scheduler_service.ports.sign_ins import SignInStore
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.sign_in_tables import sign_ins

_MOST: Final = 10_000
_C: Final = sign_ins.c


class SqlSignInStore(SignInStore):
    """SignInStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @again_when_busy
    def begin(self, state_hash: str, browser_hash: str, sign_in: SignIn, now: Instant) -> None:
        with self._database.write() as connection:
            connection.execute(delete(sign_ins).where(_C.expires_at <= now))
            # The oldest goes, so that thousands that one address begins keep nobody from signing in at once.
            kept = select(_C.expires_at).order_by(_C.expires_at.desc()).offset(_MOST - 1).limit(1)
            connection.execute(delete(sign_ins).where(_C.expires_at <= kept.scalar_subquery()))
            row = {"nonce": sign_in.nonce, "verifier": sign_in.verifier, "go_to": sign_in.go_to}
            keys = {"state_hash": state_hash, "browser_hash": browser_hash, "expires_at": now + LASTS}
            connection.execute(insert(sign_ins).values(**keys, **row))

    @again_when_busy
    def take(self, state_hash: str, browser_hash: str, now: Instant) -> SignIn | None:
        own = delete(sign_ins).where(_C.state_hash == state_hash, _C.browser_hash == browser_hash, _C.expires_at > now)
        with self._database.write() as connection:
            row = connection.execute(own.returning(_C.nonce, _C.verifier, _C.go_to)).first()
        return None if row is None else SignIn(*row)
