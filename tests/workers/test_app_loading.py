"""A user's app by its name, as `celery -A` takes it: what is wrong with the name is said."""

from pathlib import Path

import pytest

from itinerary.apps.loading import find, load_app
from itinerary.protocol.errors import BadValue, ItineraryError

NAMES = iter(range(1_000))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module of two apps, in the working directory."""
    name = f"loaded_app_{next(NAMES)}"
    (tmp_path / f"{name}.py").write_text(
        "import celery\nfirst = celery.Celery('a')\nsecond = celery.Celery('b')\nx = 1\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_each_form_of_celerys_own_option_is_taken(module: str) -> None:
    assert load_app(f"{module}:second").main == "b"
    assert load_app(f"{module}.second").main == "b"
    assert load_app(module).main == "a"


def test_a_wrong_name_says_what_was_not_found_and_where(module: str, tmp_path: Path) -> None:
    for place, why in (
        ("no_such_one.tasks:app", f"there is no module no_such_one in {tmp_path} or among the packages of "),
        (f"{module}.tasks:app", f"there is no module {module}.tasks in {tmp_path}"),
        (f"{module}:app", f"the module {module} has no app; it has {module}:first, {module}:second"),
        (f"{module}:x", "it names a int, not a Celery app"),
    ):
        with pytest.raises(BadValue) as raised:
            load_app(place)
        assert str(raised.value).startswith(f"MODULE:APP: {place!r} is not accepted; {why}")


def test_a_module_without_an_app_says_how_to_name_one(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}_none.py").write_text("def create_app(): ...\n")
    for place in (f"{module}_none", f"{module}_none:app"):
        with pytest.raises(BadValue, match="an app that a function creates must be assigned to a name of its module"):
            find(place)
    with pytest.raises(BadValue, match="name it as `celery -A` does, module:attribute"):
        find(f"{module}_none")


def test_a_package_that_the_app_needs_is_not_taken_for_a_wrong_name(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}_needs.py").write_text("import a_package_of_nobodys\n")
    with pytest.raises(ItineraryError, match="No module named 'a_package_of_nobodys'") as raised:
        find(f"{module}_needs:app")
    assert not isinstance(raised.value, BadValue)
