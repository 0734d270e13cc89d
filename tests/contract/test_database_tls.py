"""PostgreSQL over TLS: a checked server and clients with certificates, for every part of a whole deployment."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, make_url

from itinerary import enqueue_in
from itinerary.client.sync import Client
from itinerary.protocol.errors import StoreRefused
from scheduler_service.bootstrap.parts import await_database
from scheduler_service.sql.database import Database
from tests.support.authority import Authority, Certificate
from tests.support.deployment import DATABASE_URL, Deployment
from tests.support.postgres_server import WITHOUT_TLS, PostgresServer, bin_with_tls
from tests.support.processes import wait_until

pytestmark = [
    pytest.mark.postgres, pytest.mark.slow,
    pytest.mark.skipif(bin_with_tls() is None, reason=WITHOUT_TLS),
]  # fmt: skip


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[PostgresServer]:
    """A server that lets only the superuser in without a certificate, and `owner` with none but its own."""
    with PostgresServer(tls=authority.certificate("localhost")) as started:
        with admin_of(started) as connection:
            connection.execute("CREATE ROLE owner LOGIN CREATEROLE")
            connection.execute("CREATE DATABASE ours OWNER owner")
        yield started


@pytest.fixture(scope="module")
def owner(authority: Authority) -> Certificate:
    return authority.certificate("owner")


Address = Callable[..., str]


@pytest.fixture
def address(server: PostgresServer, owner: Certificate) -> Address:
    """The address of the database for its owner, changed as asked; None leaves a parameter out."""

    def changed(*, host: str = "localhost", **query: str | Path | None) -> str:
        files = {"sslrootcert": owner.authority, "sslcert": owner.file, "sslkey": owner.key}
        wanted = {"sslmode": "verify-full", **files, **query}
        words = "&".join(f"{name}={value}" for name, value in wanted.items() if value is not None)
        return f"postgresql://owner@{host}:{server.port}/ours?{words}"

    return changed


def admin_of(server: PostgresServer) -> "psycopg.Connection[tuple[object, ...]]":
    plain = server.admin_url.set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True)


def enqueued(url: str) -> list[str]:
    """A run through psycopg and one through SQLAlchemy."""
    with psycopg.connect(url) as connection:
        run_ids = [enqueue_in(connection, "itinerary.echo")]
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as session:
        run_ids.append(enqueue_in(session, "itinerary.echo"))
    engine.dispose()
    return run_ids


@pytest.mark.redis
def test_every_part_checks_the_server_and_shows_its_certificate(
    address: Address, server: PostgresServer, tmp_path: Path
) -> None:
    url = address()
    of_sqlalchemy = url.replace("postgresql", "postgresql+psycopg", 1)
    app, parts = "itinerary.worker.celery_app:app", ("leader-1", "worker", "api")
    with Deployment(tmp_path, of_sqlalchemy, app=app, parts=parts) as deployed, deployed.client() as client:
        run_ids = [*enqueued(url), client.enqueue("itinerary.echo")["run_id"]]
        wait_until(lambda: all(is_completed(client, run_id) for run_id in run_ids), what=lambda: deployed.output)
        told = subprocess.run(
            [sys.executable, "-m", "scheduler_service.cli", "doctor"],
            env=deployed.env | {DATABASE_URL: url}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "ok    database" in told.stdout, told.stdout
        with admin_of(server) as connection:
            connected = connection.execute(
                "SELECT usename, application_name, ssl, client_dn FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)"
                " WHERE datname = 'ours'"
            ).fetchall()
    assert {row[0] for row in connected} == {"leader_of_ours", "api_of_ours"}
    assert "itinerary wakeups" in {row[1] for row in connected}
    assert {row[2:] for row in connected} == {(True, "/CN=owner")}


def is_completed(client: Client, run_id: str) -> bool:
    return bool(client.run(run_id)["state"] == "completed")


def test_what_tls_refuses_ends_the_start_with_a_word_on_the_address(
    address: Address, authority: Authority, postgres_url: str, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    foreign, elses = other.certificate("owner"), authority.certificate("somebody")
    plain = make_url(postgres_url).update_query_dict({"sslmode": "require"}).render_as_string(hide_password=False)
    for url, message in {
        address(host="127.0.0.1"): "does not match host name",
        address(sslrootcert=other.file): "certificate verify failed",
        address(sslrootcert=tmp_path / "nowhere.pem"): "root certificate file .* does not exist",
        address(sslcert=None, sslkey=None): "requires a valid client certificate",
        address(sslcert=foreign.file, sslkey=foreign.key): "unknown ca",
        address(sslcert=elses.file, sslkey=elses.key): "certificate authentication failed",
        plain: "does not support SSL",
    }.items():
        refused = f"(?s){message}.*; check sslmode, sslrootcert, sslcert and sslkey in the database's address"
        with closing(Database(url)) as database, pytest.raises(StoreRefused, match=refused):
            await_database(database)
