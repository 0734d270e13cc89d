"""Apps whose beat keeps its schedule outside `beat_schedule`: refused, with the command that reads it where it is."""

import shlex
import sys
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from celery import Celery
from celery.utils.imports import load_extension_class_names, symbol_by_name

from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.protocol.service_urls import read_service_url
from scheduler_service.migrating.redbeat import PREFIX

_OWN: Final = "celery.beat"
_ENGINES: Final = {"sqlite3": "sqlite", "postgresql": "postgresql", "postgis": "postgresql", "spatialite": "sqlite"}
EMPTY: Final = (
    "the app's beat_schedule is empty: where beat is started with -S for django-celery-beat or RedBeat, "
    "give --from-database URL or --from-redbeat URL"
)


def refuse_elsewhere(app: Celery, place: str, text: str) -> None:
    """ItineraryError where the app's beat reads more than `beat_schedule`, with the command `text` that reads it."""
    named = str(app.conf.beat_scheduler)
    families = _families(named)
    command = f"itinerary {text} {shlex.quote(place)}"
    if "django_celery_beat" in families:
        raise ItineraryError(
            f"beat_scheduler of {place} is {named}: its schedule is in django-celery-beat's tables, "
            f"{_in_database()}; read it by: {command} --from-database {shlex.quote(_django_url())}"
        )
    if "redbeat" in families:
        url, prefix = _redbeat_at(app)
        more = "" if prefix == PREFIX else f" --redbeat-prefix {shlex.quote(prefix)}"
        raise ItineraryError(
            f"beat_scheduler of {place} is {named}: its schedule is in RedBeat's keys {prefix}* of Redis; "
            f"read it by: {command} --from-redbeat {shlex.quote(url)}{more}"
        )
    if families != {_OWN}:
        raise ItineraryError(
            f"beat_scheduler of {place} is {named}, which keeps a schedule that no import here reads: "
            f"read what beat_schedule holds, and nothing else, by: {command} --only-config"
        )


def _families(named: str) -> set[str]:
    """The packages that the scheduler's class comes from; where it cannot be imported, its name's alone."""
    extensions: Any = load_extension_class_names("celery.beat_schedulers")  # a short name and a path each
    aliases = dict(extensions)
    path = str(aliases.get(named, named))
    try:
        bases: tuple[type, ...] = symbol_by_name(path).__mro__
    except Exception:  # noqa: BLE001  # another's module, with what it raises at import
        return {_OWN if path.startswith(_OWN) else path.partition(".")[0]}
    modules = [base.__module__ for base in bases if base is not object]
    return {_OWN if module == _OWN else module.partition(".")[0] for module in modules[:1]} | {
        family for family in ("django_celery_beat", "redbeat") if any(m.partition(".")[0] == family for m in modules)
    }


def _django_database() -> Mapping[str, Any] | None:
    """Django's default database, where the app has configured Django."""
    conf = sys.modules.get("django.conf")
    settings = getattr(conf, "settings", None)
    if settings is None or not settings.configured:
        return None
    found: Mapping[str, Any] | None = settings.DATABASES.get("default")
    return found


def _in_database() -> str:
    held = _django_database()
    return "in the database of Django" if held is None else f"in Django's database {held.get('NAME')}"


def _django_url() -> str:
    """The URL of Django's database; PASSWORD stands for its password."""
    held = _django_database()
    if held is None:
        return "postgresql://USER:PASSWORD@HOST/DATABASE"
    engine = str(held.get("ENGINE", "")).rpartition(".")[2]
    scheme = _ENGINES.get(engine, engine)
    if scheme == "sqlite":
        return f"sqlite:///{held['NAME']}"
    user = quote(str(held.get("USER") or ""), safe="")
    secret = ":PASSWORD" if held.get("PASSWORD") else ""
    host = f"{held.get('HOST') or 'localhost'}{f':{port}' if (port := held.get('PORT')) else ''}"
    return f"{scheme}://{user}{secret}{'@' if user else ''}{host}/{held['NAME']}"


def _redbeat_at(app: Celery) -> tuple[str, str]:
    """The Redis and the prefix, as RedBeat reads its settings; `***` stands for a password."""
    conf = app.conf
    url = str(conf.get("redbeat_redis_url") or conf.get("REDBEAT_REDIS_URL") or conf.broker_url or "redis://HOST/0")
    prefix = str(conf.get("redbeat_key_prefix") or conf.get("REDBEAT_KEY_PREFIX") or PREFIX)
    try:
        return read_service_url(url, "redbeat_redis_url").shown, prefix
    except BadValue:
        return "redis://HOST/0", prefix
