"""The command that starts a worker: with the app whose tasks wait, so that no other worker fails them as unknown."""

import pytest

from scheduler_service.core.worker_command import worker_command


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({}, "itinerary worker --app MODULE:APP"),
        ({"queue": "mail"}, "itinerary worker --app MODULE:APP -Q mail"),
        ({"queue": "mail", "app": "shop:app"}, "itinerary worker --app shop:app -Q mail"),
        ({"queue": "mail", "task": "shop.invoice"}, "itinerary worker --app MODULE:APP -Q mail"),
        ({"queue": "mail", "task": "itinerary.echo"}, "itinerary worker -Q mail"),
        ({"queue": "mail", "task": "itinerary.echo", "app": "shop:app"}, "itinerary worker --app shop:app -Q mail"),
        ({"queue": "a b;c"}, "itinerary worker --app MODULE:APP -Q 'a b;c'"),
    ],
)
def test_it_names_the_app_unless_the_task_is_built_in(given: dict[str, str], command: str) -> None:
    assert worker_command(**given) == command
