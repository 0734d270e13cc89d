"""SessionStore in SQL: each begin and end in one transaction with its entry in the audit log."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, and_, delete, insert, or_, select, update

from itinerary.protocol.errors import NotFound
from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.sessions import Session, SignedIn, SignedOut
from scheduler_service.ports.sessions import SessionStore
from scheduler_service.sql.audit import record, record_all
from scheduler_service.sql.database import Database, again_when_busy
from scheduler_service.sql.sign_in_tables import logout_tokens, sessions

_S: Final = sessions.c
_COLUMNS: Final = (
    _S.id, _S.granted_by, _S.name, _S.subject, _S.issuer, _S.id_token, _S.sid, _S.agent, _S.started_at, _S.seen_at,
    _S.ends_at, _S.address,
)  # fmt: skip


class SqlSessionStore(SessionStore):
    """SessionStore on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @again_when_busy
    def begin(
        self,
        who: SignedIn,
        secret_hash: str,
        agent: str,
        address: str,
        now: Instant,
        ends_at: Instant,
        *,
        by: AuditedChange,
    ) -> Session:
        row = {
            "secret_hash": secret_hash, "granted_by": who.granted_by, "name": who.name, "subject": who.subject,
            "issuer": who.issuer, "id_token": who.id_token, "sid": who.sid, "agent": agent, "address": address,
            "started_at": now, "seen_at": now, "ends_at": ends_at,
        }  # fmt: skip
        with self._database.write() as connection:
            (session_id,) = connection.execute(insert(sessions).values(**row).returning(_S.id)).one()
            session = Session(session_id, who, agent, now, now, ends_at, address)
            record(connection, now, by, who.name, None, _recorded(session))
        return session

    def find(self, secret_hash: str, now: Instant) -> Session | None:
        asked = select(*_COLUMNS).where(_S.secret_hash == secret_hash, _S.ends_at > now)
        with self._database.read() as connection:
            row = connection.execute(asked).first()
        return None if row is None else _session(row)

    @again_when_busy
    def seen(self, session_id: int, now: Instant) -> None:
        with self._database.write() as connection:
            this = update(sessions).where(_S.id == session_id, _S.seen_at < now)
            connection.execute(this.values(seen_at=now))

    @again_when_busy
    def end(self, session_id: int, now: Instant, *, by: AuditedChange) -> Session:
        with self._database.write() as connection:
            ended = _end(connection, (_S.id == session_id,), now, by)
        if not ended:
            raise NotFound(f"no session {session_id}")
        return ended[0]

    @again_when_busy
    def end_all(self, subject: str, issuer: str | None, now: Instant, *, by: AuditedChange) -> int:
        with self._database.write() as connection:
            return len(_end(connection, _of(subject, issuer), now, by))

    @again_when_busy
    def sign_out(self, said: SignedOut, now: Instant, *, by: AuditedChange) -> int | None:
        """Note the token and end the sessions in one transaction: if we die before the commit, it may come again."""
        with self._database.write() as connection:
            connection.execute(delete(logout_tokens).where(logout_tokens.c.expires_at <= now))
            noted = self._database.dialect.insert(logout_tokens).on_conflict_do_nothing()
            row = {"token_hash": said.token_hash, "expires_at": said.expires_at}
            if connection.execute(noted.returning(logout_tokens.c.token_hash), row).first() is None:
                return None
            return len(_end(connection, (_S.issuer == said.issuer, _signed_out(said)), now, by))

    def list(self, now: Instant, idle: Duration, limit: int, of: SignedIn | None = None) -> Sequence[Session]:
        asked = select(*_COLUMNS).where(_S.ends_at > now, _S.seen_at > now - idle).order_by(_S.seen_at.desc(), _S.id)
        if of is not None:
            asked = asked.where(*_of(of.subject, of.issuer))
        with self._database.read() as connection:
            return [_session(row) for row in connection.execute(asked.limit(limit))]


def _of(subject: str, issuer: str | None) -> tuple[Any, Any]:
    return _S.subject == subject, _S.issuer.is_not_distinct_from(issuer)


def _signed_out(said: SignedOut) -> Any:
    """Those of the name; of a session whose name is not known, the subject decides."""
    subject = _S.subject == said.subject
    if said.sid is None:
        return subject
    return or_(_S.sid == said.sid, and_(subject, _S.sid.is_(None)))


def _end(connection: Connection, which: Sequence[Any], now: Instant, by: AuditedChange) -> list[Session]:
    """End those of them that last, locked in the order of their ids."""
    locked = select(*_COLUMNS).where(*which, _S.ends_at > now).order_by(_S.id).with_for_update()
    ended = [_session(row) for row in connection.execute(locked)]
    for session in ended:
        this = update(sessions).where(_S.id == session.session_id)
        connection.execute(this.values(ends_at=now, ended_by=by.actor, id_token=None))
    record_all(connection, now, by, [(each.who.name, _recorded(each), None) for each in ended])
    return ended


def _recorded(session: Session) -> dict[str, Any]:
    shown = {"session": session.session_id, "issuer": session.who.issuer, "browser": session.agent}
    return {name: value for name, value in shown.items() if value is not None}


def _session(row: Any) -> Session:
    who = SignedIn(row.granted_by, row.name, row.subject, row.issuer, row.id_token, row.sid)
    return Session(row.id, who, row.agent, row.started_at, row.seen_at, row.ends_at, row.address)
