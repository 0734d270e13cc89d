"""The client for asyncio: what `Client` has, with the event loop free and no more threads than it may have."""

import asyncio
import inspect
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from itinerary import ApiError, AsyncClient, Client, RunFailed, WaitTimeout
from tests.support.http_server import LoopbackServer, QuietHandler
from tests.support.stub_server import Answer, StubServer

ITERATING = {"all_jobs", "all_runs", "follow_logs"}
OF_ITS_OWN = {"close", "result", "wait"}
RUNNING, COMPLETED = ({"run_id": "adhoc_1", "state": state} for state in ("running", "completed"))


def public_methods(client: type[Any]) -> set[str]:
    return {name for name, value in inspect.getmembers(client, callable) if not name.startswith("_")}


def test_each_method_of_the_client_is_there_with_the_same_arguments() -> None:
    assert public_methods(AsyncClient) == public_methods(Client)
    for name in public_methods(Client):
        ours, theirs = getattr(AsyncClient, name), getattr(Client, name)
        is_async = inspect.isasyncgenfunction if name in ITERATING else inspect.iscoroutinefunction
        assert is_async(ours), name
        assert inspect.signature(ours) == inspect.signature(theirs), name
        if name not in OF_ITS_OWN:
            assert inspect.unwrap(ours, stop=lambda call, theirs=theirs: call is theirs) is theirs, name
    ours, theirs = (dict(inspect.signature(client).parameters) for client in (AsyncClient, Client))
    del ours["at_once"]
    assert ours == theirs


class Held(LoopbackServer):
    """Answers when `gate` is open; `held` and `most` count what waits, now and at most."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.arrived = threading.Semaphore(0)
        self.held = self.most = 0
        lock, outer = threading.Lock(), self

        class Handler(QuietHandler):
            def do_GET(self) -> None:
                with lock:
                    outer.held += 1
                    outer.most = max(outer.most, outer.held)
                outer.arrived.release()
                outer.gate.wait(60)
                with lock:
                    outer.held -= 1
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        super().__init__(Handler)


def test_the_loop_is_free_while_requests_are_under_way_and_no_more_are_than_it_may() -> None:
    async def program(server: Held) -> list[dict[str, Any]]:
        async with AsyncClient(server.address, at_once=2) as client:
            asked = [asyncio.create_task(client.status()) for _ in range(6)]
            for _ in range(2):
                await asyncio.to_thread(server.arrived.acquire)
            assert not any(one.done() for one in asked)
            server.gate.set()
            return list(await asyncio.gather(*asked))

    with Held() as server:
        assert asyncio.run(program(server)) == [{}] * 6
    assert server.most == 2


def test_a_run_that_is_waited_for_holds_no_thread() -> None:
    async def program(url: str) -> None:
        async with AsyncClient(url, at_once=1) as client:
            with pytest.raises(WaitTimeout, match=r"run adhoc_1 is still running after 0 s"):
                await client.wait("adhoc_1", timeout=0)
            waits = [asyncio.create_task(client.wait("adhoc_1", every=0.02)) for _ in range(5)]
            while len(stub.seen) < 20:
                assert (await client.run("adhoc_1"))["state"] == "running"
            stub.answers[:] = [Answer(200, COMPLETED)]
            assert await asyncio.gather(*waits) == [COMPLETED] * 5

    with StubServer([Answer(200, RUNNING)]) as stub:
        asyncio.run(program(stub.url))


def test_a_result_is_returned_and_a_run_that_did_not_complete_raised() -> None:
    failed = {**RUNNING, "state": "failed", "error": {"type": "ValueError", "message": "no good"}}
    answers = [Answer(200, {**COMPLETED, "result": 7}), Answer(200, failed)]

    async def program(url: str) -> None:
        async with AsyncClient(url) as client:
            assert await client.result("adhoc_1") == 7
            with pytest.raises(RunFailed, match=r"run adhoc_1 ended failed: ValueError: no good"):
                await client.wait("adhoc_1", raises=True)
            assert (await client.wait("adhoc_1")).state == "failed"

    with StubServer(list(answers)) as stub, Client(stub.url) as client:
        assert client.result("adhoc_1") == 7
        for ask in (client.result, lambda run_id: client.wait(run_id, raises=True)):
            with pytest.raises(RunFailed) as ended:
                ask("adhoc_1")
            assert ended.value.run == failed
        assert client.wait("adhoc_1").state == "failed"
    with StubServer(list(answers)) as stub:
        asyncio.run(program(stub.url))


def test_pages_are_asked_for_as_they_are_used() -> None:
    def page(first: int, cursor: str | None) -> Answer:
        return Answer(200, {"items": [{"run_id": n} for n in range(first, first + 1000)], "next_cursor": cursor})

    async def program(url: str) -> None:
        async with AsyncClient(url) as client:
            found = []
            async for run in client.all_runs(queue="q"):
                found.append(run["run_id"])
                assert len(stub.seen) == (1 if len(found) <= 1000 else 2)
            assert found == list(range(2000))

    with StubServer([page(0, "next"), page(1000, None)]) as stub:
        asyncio.run(program(stub.url))
    assert [path for _, path, _ in stub.seen] == [
        "/api/v1/runs?queue=q&limit=1000", "/api/v1/runs?queue=q&limit=1000&cursor=next",
    ]  # fmt: skip


def test_a_refusal_is_raised_and_a_closed_client_says_so() -> None:
    async def program(url: str) -> None:
        async with AsyncClient(url) as client:
            with pytest.raises(ApiError, match="there is no job a"):
                await client.job("a")
        with pytest.raises(RuntimeError):
            await client.job("a")

    with StubServer([Answer(404, {"detail": "there is no job a"})]) as stub:
        asyncio.run(program(stub.url))
    assert len(stub.seen) == 1


def test_the_context_of_the_caller_goes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a trace would end where a program awaits."""
    mark: ContextVar[str] = ContextVar("mark", default="none")
    monkeypatch.setattr("itinerary.client.transport.caller_traceparent", mark.get)
    seen: list[str] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["traceparent"])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    async def program(url: str) -> None:
        async with AsyncClient(url) as client:
            mark.set("of the caller")
            await client.status()

    with LoopbackServer(Handler) as server:
        asyncio.run(program(server.address))
    assert seen == ["of the caller"]
