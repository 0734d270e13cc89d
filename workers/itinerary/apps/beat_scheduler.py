"""The place of an app's beat schedule: `beat_schedule`, django-celery-beat's tables, RedBeat's keys."""

import sys
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from celery import Celery
from celery.utils.imports import load_extension_class_names, symbol_by_name

from itinerary.protocol.errors import BadValue
from itinerary.protocol.service_urls import read_service_url

CELERY: Final = "celery"
DJANGO: Final = "django_celery_beat"
REDBEAT: Final = "redbeat"
OTHER: Final = "other"
REDBEAT_PREFIX: Final = "redbeat:"
_OWN: Final = "celery.beat"
_ENGINES: Final = {"sqlite3": "sqlite", "postgresql": "postgresql", "postgis": "postgresql", "spatialite": "sqlite"}


def scheduler_of(app: Celery) -> dict[str, Any]:
    """The scheduler's name and family, and the place of its schedule where that is outside `beat_schedule`."""
    named = str(app.conf.beat_scheduler)
    families = _families(named)
    if DJANGO in families:
        return {"name": named, "family": DJANGO, "database": _django_name(), "url": _django_url()}
    if REDBEAT in families:
        url, prefix = _redbeat_at(app)
        return {"name": named, "family": REDBEAT, "url": url, "prefix": prefix}
    return {"name": named, "family": CELERY if families == {_OWN} else OTHER}


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
        family for family in (DJANGO, REDBEAT) if any(module.partition(".")[0] == family for module in modules)
    }


def _django_database() -> Mapping[str, Any] | None:
    """Django's default database, where the app has configured Django."""
    conf = sys.modules.get("django.conf")
    settings = getattr(conf, "settings", None)
    if settings is None or not settings.configured:
        return None
    found: Mapping[str, Any] | None = settings.DATABASES.get("default")
    return found


def _django_name() -> str | None:
    held = _django_database()
    return None if held is None else str(held.get("NAME"))


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
    prefix = str(conf.get("redbeat_key_prefix") or conf.get("REDBEAT_KEY_PREFIX") or REDBEAT_PREFIX)
    try:
        return read_service_url(url, "redbeat_redis_url").shown, prefix
    except BadValue:
        return "redis://HOST/0", prefix
