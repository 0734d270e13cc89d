"""The page of examples for other languages: every piece of it is run as it stands."""

import ast
import asyncio
import json
import re
import shutil
import socket
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from sqlalchemy import make_url

from itinerary.client.sync import Client
from tests.support.command_line import Itinerary
from tests.support.processes import MANUAL, PATIENCE, Child, free_port, project_env, wait_until

pytestmark = pytest.mark.slow  # whole processes, or real servers for long

PAGE = (MANUAL / "enqueueing.md").read_text("utf-8")
SERVERS = {
    "fastapi": ["uvicorn", "shop:app", "--port", "{port}", "--log-level", "warning"],
    "flask": ["flask", "--app", "shop", "run", "--port", "{port}"],
}


def piece(heading: str, language: str, place: int = 0) -> str:
    """One block of code below a heading of the page."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)[place]


@pytest.fixture
def address(itinerary: Itinerary) -> str:
    return f"http://127.0.0.1:{itinerary.env['ITINERARY_API_PORT']}"


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as opened:
        yield opened


def run_piece(argv: list[str], folder: Path, address: str) -> list[str]:
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin:/usr/local/go/bin", "ITINERARY_API_URL": address, "HOME": str(folder)}
    ended = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_curl_calls_do_what_they_say(address: str, tmp_path: Path) -> None:
    assert run_piece(["sh", "-eu", "-c", piece("curl", "sh")], tmp_path, address) == []
    assert read(tmp_path, "job.json")["job_id"] == "curl.report"
    assert read(tmp_path, "seen.json")["state"] == "scheduled"
    assert read(tmp_path, "cancelled.json")["state"] == "cancelled"
    assert read(tmp_path, "explained.json")["verdict"] == "cancelled"
    assert len(read(tmp_path, "preview.json")["occurrences"]) == 3
    assert read(tmp_path, "why.json")["verdict"] == "never_due"


def said_by_a_program(lines: list[str]) -> None:
    assert lines[:3] == ["same run true", "state scheduled", "state cancelled"]
    assert lines[3].startswith("why It was enqueued for 2999-01-01T00:00:00Z")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_javascript_program_does_what_it_says(address: str, tmp_path: Path) -> None:
    (tmp_path / "page.mjs").write_text(piece("JavaScript", "js"))
    lines = run_piece(["node", "page.mjs"], tmp_path, address)
    said_by_a_program(lines)
    assert lines[4].startswith("refused 422: priority: 11 is not accepted")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="needs a Go toolchain")
def test_the_go_program_does_what_it_says(address: str, tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text(piece("Go", "go"))
    said_by_a_program(run_piece(["go", "run", "main.go"], tmp_path, address))


def test_the_python_piece_does_what_it_says(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(piece("Python", "python").replace("http://127.0.0.1:8080", address), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["state cancelled", "state cancelled"]
    assert lines[2].startswith("why ")


async def by_asyncpg(url: str, program: str) -> None:
    """Run a program that awaits, as in a coroutine."""
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
        code = compile(program, "enqueueing.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        await types.FunctionType(code, {"pool": pool})()


@pytest.mark.postgres
def test_the_pieces_for_ones_own_transaction_enqueue_with_no_more_rights_than_they_name(postgres_url: str) -> None:
    url = make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as admin:
        admin.execute("DROP ROLE IF EXISTS shop")
        admin.execute("CREATE ROLE shop LOGIN")
        admin.execute("CREATE TABLE orders (id int)")
        admin.execute("GRANT INSERT ON orders TO shop")
        admin.execute(piece("In your own transaction", "sql", 1))
    shop_url = make_url(url).set(username="shop").render_as_string(hide_password=False)
    given = {"psycopg": psycopg, "DATABASE_URL": shop_url}
    exec(piece("In your own transaction", "python"), given)
    exec(piece("In your own transaction", "python", 1), given)
    asyncio.run(by_asyncpg(shop_url, piece("In your own transaction", "python", 2)))
    with psycopg.connect(shop_url) as shop:
        shop.execute(piece("In your own transaction", "sql"))
    with psycopg.connect(url) as admin:
        rows = admin.execute("SELECT task, kwargs, state, idempotency_key FROM runs ORDER BY id").fetchall()
        admin.execute("DROP OWNED BY shop")
        admin.execute("DROP ROLE shop")
    keyed = [("shop.send_invoice", {"order": n}, "scheduled", f"invoice-{n}") for n in (17, 18, 19, 20, 21)]
    assert rows == [*keyed, (*keyed[0][:3], None)]


@pytest.mark.parametrize("page", SERVERS)
def test_the_web_programs_enqueue_once_and_wait(page: str, address: str, client: Client, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (MANUAL / f"{page}.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "shop.py").write_text(blocks[0].replace("timeout=30", "timeout=0.1"))
    port = free_port()
    command = [sys.executable, "-m", *(word.format(port=port) for word in SERVERS[page])]
    web = f"http://127.0.0.1:{port}/orders/{port}"  # of this page alone: the key is of the order
    with Child(command, env=project_env(ITINERARY_API_URL=address), cwd=tmp_path) as server:
        wait_until(lambda: answers(port) or not server.running, what=lambda: server.output)
        first, second = (answer(Request(web, method="POST")) for _ in range(2))
        assert first == second
        state = f"{web}/run/{first['run']}"
        with urlopen(state, timeout=PATIENCE) as said:
            assert (said.status, json.load(said)) == (202, {"state": "scheduled"})
        client.cancel(first["run"])
        assert answer(Request(state)) == {"state": "cancelled", "result": None}


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answer(request: Request) -> Any:
    with urlopen(request, timeout=PATIENCE) as said:
        return json.load(said)
