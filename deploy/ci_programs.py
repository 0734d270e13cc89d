"""Programs for the tests that drive them, installed on a machine of CI only: nobody's own machine is changed.

Standard library only. Where one cannot be had the tests that need it skip, and say so.
"""

import os
import shutil
import subprocess

from environments import report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SERVERS_PATH = "/usr/sbin:/usr/local/sbin"
BOUND_SECONDS = 600


def programs_for_ci() -> None:
    """Install Debian's package of what is missing, where CI is set and we are root."""
    apt = shutil.which("apt-get")
    if not os.environ.get("CI") or os.geteuid() != 0 or apt is None:
        return
    missing = [
        package for package, is_there in (("chromium", has_browser), ("pgbouncer", has_pooler)) if not is_there()
    ]
    if not missing:
        return
    report(f"Installing {' and '.join(missing)} for the tests ...")
    is_known = quietly([apt, "update"])
    for package in missing:  # one that cannot be had keeps no other out
        if not (is_known and quietly([apt, "install", "-y", "--no-install-recommends", package])):
            report(f"There is no {package} then: the tests that drive it will skip.")


def has_browser() -> bool:
    """Whether the tests will find a browser, see tests/support/browser.py."""
    return bool(os.environ.get("ITINERARY_TEST_BROWSER")) or any(map(shutil.which, BROWSERS))


def has_pooler() -> bool:
    """Whether the tests will find PgBouncer, see tests/support/pgbouncer.py."""
    return any(shutil.which("pgbouncer", path=path) for path in (None, SERVERS_PATH))


def quietly(command: list[str]) -> bool:
    """Whether the command succeeded in time; all that it said where it did not."""
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
