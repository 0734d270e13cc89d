"""Programs for the tests that drive them, installed on CI machines only: a developer's machine is never changed.

Standard library only. If one cannot be installed, the tests that need it skip, with a message.
"""

import os
import shutil
import subprocess

from environments import report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
REDIS = "redis-check-rdb"
SERVERS_PATH = "/usr/sbin:/usr/local/sbin"
BOUND_SECONDS = 600


def programs_for_ci() -> None:
    """Install Debian's package of each missing program, if CI is set and this process is root."""
    apt = shutil.which("apt-get")
    if not os.environ.get("CI") or os.geteuid() != 0 or apt is None:
        return
    wanted = (("chromium", has_browser), ("pgbouncer", has_pooler), ("redis-tools", has_redis_with_tls))
    missing = [package for package, is_there in wanted if not is_there()]
    if not missing:
        return
    report(f"Installing {' and '.join(missing)} for the tests ...")
    is_known = quietly([apt, "update"])
    for package in missing:  # one that fails does not prevent the others
        if not (is_known and quietly([apt, "install", "-y", "--no-install-recommends", package])):
            report(f"{package} is not installed: the tests that drive it will skip.")


def has_browser() -> bool:
    """Whether the tests will find a browser, see tests/support/browser.py."""
    return bool(os.environ.get("ITINERARY_TEST_BROWSER")) or any(map(shutil.which, BROWSERS))


def has_pooler() -> bool:
    """Whether the tests will find PgBouncer, see tests/support/pgbouncer.py."""
    return any(shutil.which("pgbouncer", path=path) for path in (None, SERVERS_PATH))


def has_redis_with_tls() -> bool:
    """Whether the test of TLS will find a Redis, see tests/support/tls_redis.py.

    Not redis-server: its service would start, and every test that wants Redis would find it on PATH.
    """
    return shutil.which(REDIS) is not None


def quietly(command: list[str]) -> bool:
    """Run the command quietly; whether it succeeded in time. Prints all of its output if it failed."""
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=BOUND_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as exc:
        report(f"{exc}")
        return False
    if done.returncode:
        report(f"{done.stdout}\n{' '.join(command)} ended with status {done.returncode}")
    return done.returncode == 0
