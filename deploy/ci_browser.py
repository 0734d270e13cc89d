"""A browser for the tests that drive one, installed on a machine of CI only: nobody's own machine is changed.

Standard library only. Where it cannot be had the tests that need it skip, and say so.
"""

import os
import shutil
import subprocess

from environments import tell

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BOUND_SECONDS = 600


def browser_for_ci() -> None:
    """Install Debian's Chromium where CI is set, we are root, and no browser is there."""
    apt = shutil.which("apt-get")
    if not os.environ.get("CI") or os.geteuid() != 0 or apt is None or found_browser():
        return
    tell("Installing Chromium for the tests that drive a browser ...")
    install = [apt, "install", "-y", "--no-install-recommends", "chromium"]
    if not (quietly([apt, "update"]) and quietly(install)):
        tell("There is no Chromium then: the tests that drive a browser will skip.")


def found_browser() -> bool:
    """Whether the tests will find a browser, see tests/support/browser.py."""
    return bool(os.environ.get("ITINERARY_TEST_BROWSER")) or any(map(shutil.which, BROWSERS))


def quietly(command: list[str]) -> bool:
    """Whether the command succeeded in time; all that it said where it did not."""
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=BOUND_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as exc:
        tell(f"{exc}")
        return False
    if done.returncode:
        tell(f"{done.stdout}\n{' '.join(command)} ended with status {done.returncode}")
    return done.returncode == 0
