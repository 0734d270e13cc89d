"""The interpreter of a user's app: examined before anything starts, with what to install where something is missing."""

import json
import sys
from pathlib import Path

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.wire import PROTOCOL
from itinerary.version import VERSION
from scheduler_service.local.user_app import worker_env
from scheduler_service.runtime.app_python import AppPython, app_python, own_python


def interpreter(folder: Path, **found: object) -> str:
    """A program that answers the examination as an interpreter with these packages would."""
    known = {"python": [3, 12], "itinerary": VERSION, "protocol": PROTOCOL, "celery": "5.4.0"}
    path = folder / "its python"
    path.write_text(f"#!/bin/sh\necho '{json.dumps(known | found)}'\n")
    path.chmod(0o755)
    return str(path)


def test_none_named_is_ours() -> None:
    assert app_python(None, "--worker-python") == own_python()
    assert own_python().command("worker") == [sys.executable, "-P", "-m", "itinerary", "worker"]


def test_a_real_interpreter_serves_if_our_package_is_there() -> None:
    assert app_python(sys.executable, "--worker-python").argv == (sys.executable, "-P")


def test_a_link_stays_the_link_and_python_3_10_has_no_safe_path(tmp_path: Path) -> None:
    path = interpreter(tmp_path, python=[3, 10])
    (tmp_path / "python").symlink_to(path)
    assert app_python(str(tmp_path / "python"), "--python").argv == (str(tmp_path / "python"),)
    assert app_python(interpreter(tmp_path, python=[3, 11]), "--python").argv == (path, "-P")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"python": [3, 9]}, "it is Python 3.9: celery-itinerary needs 3.10 or later"),
        ({"itinerary": None}, f"no celery-itinerary; run '.*its python' -m pip install celery-itinerary=={VERSION}"),
        ({"protocol": PROTOCOL + 1, "itinerary": "9.0"}, "celery-itinerary 9.0, which this service .* does not under"),
        ({"protocol": PROTOCOL - 2, "itinerary": "0.0"}, "celery-itinerary 0.0, which this service .* does not under"),
        ({"celery": None}, "no celery; run '.*its python' -m pip install 'celery"),
    ],
)
def test_what_is_missing_there_is_said_with_what_installs_it(
    tmp_path: Path, found: dict[str, object], why: str
) -> None:
    with pytest.raises(BadValue, match=f"^--python: .*{why}"):
        app_python(interpreter(tmp_path, **found), "--python")


def test_the_release_before_serves_too(tmp_path: Path) -> None:
    assert app_python(interpreter(tmp_path, protocol=PROTOCOL - 1), "--python").argv


def test_what_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=f"name the interpreter in it: {tmp_path}/bin/python"):
        app_python(str(tmp_path), "--python")
    with pytest.raises(BadValue, match="No such file or directory"):
        app_python(str(tmp_path / "nothing"), "--python")
    (tmp_path / "other").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "other").chmod(0o755)
    with pytest.raises(BadValue, match="not a Python interpreter"):
        app_python(str(tmp_path / "other"), "--python")


def test_another_interpreter_is_not_given_our_packages_and_no_task_flowers_password() -> None:
    ours = {"PYTHONPATH": "/ours:/theirs", "ITINERARY_FLOWER_PASSWORD": "secret", "ITINERARY_REDIS_URL": "redis://x"}
    other = AppPython(("/other/python",))
    assert worker_env(ours, {"PYTHONPATH": "/theirs"}, other) == {
        "PYTHONPATH": "/theirs",
        "ITINERARY_REDIS_URL": "redis://x",
    }
    assert "PYTHONPATH" not in worker_env(ours, {}, other)
    assert worker_env(ours, {}, own_python())["PYTHONPATH"] == "/ours:/theirs"
