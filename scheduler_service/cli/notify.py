"""`itinerary notify ...`: tests notifications, and retries those that were given up."""

import sys
from typing import TYPE_CHECKING, Any

import typer

from itinerary.protocol.errors import BadValue
from scheduler_service.cli.status import Json

if TYPE_CHECKING:
    from scheduler_service.config.settings import Settings
    from scheduler_service.ports.notices import Delivery, Target

notify = typer.Typer(help="Test notifications, and retry those that were given up.", no_args_is_help=True)


@notify.command("test")
def try_out(as_json: Json = False) -> None:
    """Send a test to every target and print the answers; status 1 if one refused it."""
    from scheduler_service.bootstrap.notifications import targets_of
    from scheduler_service.cli.output import print_json
    from scheduler_service.observability.logs import escaped

    targets, delivery = targets_of(_settings()), _test_delivery()
    results = [_result(target, delivery) for target in targets]
    if as_json:
        print_json({"items": results})
    else:
        for result in results:
            print(f"{'ok  ' if result['well'] else 'FAIL'}  {result['target']}  {escaped(result['words'])}")
    if not all(result["well"] for result in results):
        sys.exit(1)


@notify.command("retry")
def retry() -> None:
    """Have the leader retry every notification that was given up."""
    from scheduler_service.cli.doctor import opened
    from scheduler_service.sql.outbox import SqlOutbox

    with opened(_settings()) as database:
        count = SqlOutbox(database).retry_dead()
    print(f"{count} to be sent again")


def _settings() -> "Settings":
    from scheduler_service.config.settings import load_settings

    settings = load_settings()
    if not settings.notify_topics:
        allowed = "name somebody there, in ITINERARY_NOTIFY_CHANNELS or in ITINERARY_NOTIFY_EMAIL_TO"
        raise BadValue("ITINERARY_NOTIFY_WEBHOOKS", None, allowed)
    return settings


def _test_delivery() -> "Delivery":
    from uuid_utils.compat import uuid7

    from scheduler_service.core.notifications.notices import test_message
    from scheduler_service.ports.notices import Delivery
    from scheduler_service.sql.column_types import dump_json
    from scheduler_service.sql.database import host_now

    now = host_now()
    message = test_message(now, str(uuid7()))
    return Delivery(message.message_id, "", message.topic, dump_json(message.body), now, 1)


def _result(target: "Target", delivery: "Delivery") -> dict[str, Any]:
    from scheduler_service.ports.notices import DeliveryFailed, DeliveryRefused

    try:
        return {"target": target.name, "well": True, "words": target.deliver(delivery)}
    except (DeliveryFailed, DeliveryRefused) as exc:
        return {"target": target.name, "well": False, "words": str(exc)}
    except Exception as exc:  # noqa: BLE001  # shown as failed, like any other; its words may hold a secret
        return {"target": target.name, "well": False, "words": type(exc).__name__}
