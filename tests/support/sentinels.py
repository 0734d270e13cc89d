"""Two real Redis servers behind three real Sentinels: the replica takes over when the master is killed."""

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from itinerary.protocol.sentinel_urls import SentinelUrl
from tests.support.processes import Child, free_port, wait_until
from tests.support.redis_server import RedisServer

MASTER: Final = "itinerary"
# A server may go without a core for a second on a loaded machine, and is not down then.
_CONFIG: Final = """\
port {port}
bind 127.0.0.1
dir {folder}
sentinel monitor {master} 127.0.0.1 {watched} 2
sentinel down-after-milliseconds {master} 3000
sentinel failover-timeout {master} 6000
"""


class Sentinels(AbstractContextManager["Sentinels"]):
    """`url` is the address of whichever server is the master; `kill` kills the master and waits for the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            self._servers.append(RedisServer(folder / name))
        self._ports = [free_port() for _ in range(3)]
        self._children: list[Child] = []
        self._stack = ExitStack()

    @property
    def address(self) -> SentinelUrl:
        return SentinelUrl(tuple(("127.0.0.1", port) for port in self._ports), MASTER)

    @property
    def url(self) -> str:
        return self.address.text

    @property
    def output(self) -> str:
        return "\n".join(child.output for child in self._children)

    def kill(self) -> None:
        """kill -9 of the master; returns when the replica is the master."""
        master, replica = self._servers
        master.kill()
        with replica.client() as client:
            wait_until(lambda: client.info("replication")["role"] == "master", what=lambda: self.output)

    def __enter__(self) -> Self:
        master, replica = (self._stack.enter_context(server) for server in self._servers)
        with replica.client() as client:
            client.replicaof("127.0.0.1", str(master.port))
            wait_until(lambda: client.info("replication")["master_link_status"] == "up")
        for port in self._ports:
            folder = self._folder / f"sentinel-{port}"
            folder.mkdir()
            config = folder / "sentinel.conf"
            config.write_text(_CONFIG.format(port=port, folder=folder, master=MASTER, watched=master.port))
            argv = [str(master.binary.path), str(config), "--sentinel"]
            self._children.append(self._stack.enter_context(Child(argv, cwd=folder)))
        wait_until(self._agree, what=lambda: self.output)
        return self

    def _agree(self) -> bool:
        """Whether each Sentinel knows the replica and the two others."""
        import redis

        for port in self._ports:
            try:
                with redis.Redis(port=port, decode_responses=True) as sentinel:
                    state = sentinel.sentinel_master(MASTER)
            except redis.RedisError:
                return False
            if (state["num-slaves"], state["num-other-sentinels"]) != (1, 2):
                return False
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
