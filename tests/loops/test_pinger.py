"""Pings sent over real databases to a real server, by the leader alone."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from itinerary.protocol.instants import HOUR
from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.pings import Ping, PingState
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.loops import pinger as pinger_module
from scheduler_service.loops.pinger import Pinger
from scheduler_service.notify import ping_sender
from scheduler_service.notify.ping_sender import sender_of
from scheduler_service.ports.pings import PingFailed
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.pings import SqlPingStore, keep_pings
from tests.support.http_server import LoopbackServer, QuietHandler
from tests.support.processes import free_port, wait_until


class Pinged(LoopbackServer):
    """Answers GETs, and keeps their paths; `/slow` is never answered, `/gone` is 404 and repeats the address."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        server = self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                server.paths.append(self.path)
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                if "slow" in self.path:
                    self.rfile.read(1)  # until the other side hangs up
                    return
                text = f"no {self.path}".encode()
                self.send_response(404 if "gone" in self.path else 200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        super().__init__(Handler)


class Counted(list[str]):
    def pinged(self, outcome: str) -> None:
        self.append(outcome)


@contextmanager
def pinger(url: str, *pings: Ping, leads: bool = True) -> Iterator[tuple[Pinger, Counted, SqlPingStore]]:
    with closing(Database(url, pool_size=10)) as database:
        change = Transition("r", 1, Event.START, RunState.RUNNING, 0, pings=pings)
        with database.write() as connection:
            keep_pings(connection, [change], set(), host_now() - HOUR // 2)
        leases, counted = SqlLeaseStore(database), Counted()
        if leads:
            assert leases.acquire(0, "me", HOUR) is not None
        store = SqlPingStore(database)
        yield Pinger(leases, store, sender_of(True), counted, "me"), counted, store


def test_the_leader_sends_them_in_order_with_nothing_of_ours_and_once(database_url: str) -> None:
    with Pinged() as server:
        sent = [Ping("a", state, f"{server.address}/{state}?key=1") for state in (PingState.START, PingState.SUCCESS)]
        with pinger(database_url, *sent) as (mine, counted, _):
            mine.round()
            mine.round()
    assert server.paths == ["/start?key=1", "/success?key=1"]
    assert counted == ["sent", "sent"]
    assert set(server.headers[0]) <= {"host", "user-agent", "accept-encoding"}


def test_more_than_one_round_are_sent_without_a_pause(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinger_module, "_EVERY_SECONDS", 3600.0)
    monkeypatch.setattr(pinger_module, "_A_ROUND", 4)
    with Pinged() as server:
        many = [Ping(f"job{n}", PingState.SUCCESS, f"{server.address}/{n}") for n in range(10)]
        with pinger(sqlite_url, *many) as (mine, _, _):
            mine.start()
            wait_until(lambda: len(server.paths) == len(many))
            mine.stop(60)
    assert sorted(server.paths) == sorted(f"/{n}" for n in range(len(many)))


def test_who_does_not_lead_sends_nothing(sqlite_url: str) -> None:
    with (
        Pinged() as server,
        pinger(sqlite_url, Ping("a", PingState.START, server.address), leads=False) as (mine, _, _),
    ):
        mine.round()
    assert server.paths == []


def test_one_that_is_away_keeps_no_other_waiting_and_is_tried_again(sqlite_url: str) -> None:
    with Pinged() as server:
        away = f"http://127.0.0.1:{free_port()}/secret-path"
        pings = [Ping("dead", PingState.START, away), Ping("well", PingState.START, f"{server.address}/ok")]
        with pinger(sqlite_url, *pings) as (mine, counted, store):
            mine.round()
            assert server.paths in (["/ok"], [])  # the same host, 127.0.0.1, may just have failed
            assert "failed" in counted
            assert store.claim(10, HOUR) == [], "not before its time"


@pytest.mark.parametrize("path", ["/gone/secret-path", "/slow"])
def test_a_refusal_and_a_slow_answer_fail_without_the_address(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ping_sender, "TIMEOUT", 0.2)
    with Pinged() as server, pytest.raises(PingFailed) as failed:
        sender_of(True)(Ping("a", PingState.START, server.address + path))
    assert "secret" not in str(failed.value)


def test_an_address_that_is_not_public_is_never_connected_to_unless_a_setting_allows_it() -> None:
    with Pinged() as server, pytest.raises(PingFailed, match="ITINERARY_NOTIFY_ALLOW_PRIVATE=true allows it"):
        sender_of(False)(Ping("a", PingState.START, server.address))
    assert server.paths == []
