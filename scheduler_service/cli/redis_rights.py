"""The doctor's check of the rights that its user has in Redis and in a broker that is one."""

from contextlib import closing

from scheduler_service.broker.client import connect
from scheduler_service.broker.marks import reads_marks
from scheduler_service.broker.rights import SERVICE, missing
from scheduler_service.cli.findings import NotWell
from scheduler_service.config.settings import Settings


def check_rights(settings: Settings) -> str:
    """Report that the user may do everything that a leader does, or name what it may not."""
    refused = []
    for url, calls in ((settings.redis_url, SERVICE.own), (settings.broker_url, SERVICE.broker)):
        if reads_marks(url):
            with closing(connect(url, answer_timeout=2)) as client:
                refused += missing(client, calls, settings.key_prefix, settings.broker_key_prefix or "")
    if refused:
        raise NotWell(f"the user of Redis may not: {'; '.join(dict.fromkeys(refused))}")
    return "those of a leader"
