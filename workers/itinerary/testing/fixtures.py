"""Fixtures for pytest: `pytest_plugins = ["itinerary.testing.fixtures"]` in the conftest.py of the root folder."""

from collections.abc import Iterator
from typing import Any

import pytest

from itinerary.testing import Service


@pytest.fixture
def itinerary_app() -> Any:
    """The Celery app whose tasks are run: the current one. Define a fixture of this name to give another."""
    from celery import current_app

    return current_app._get_current_object()  # type: ignore[attr-defined]  # of every proxy of Celery's


@pytest.fixture
def itinerary_service(itinerary_app: Any) -> Iterator[Service]:
    """A service in memory for one test."""
    with Service(itinerary_app) as service:
        yield service
