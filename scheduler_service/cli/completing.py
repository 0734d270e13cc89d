"""Shell completion: ids of jobs, names of limits, states of runs. A completion that fails offers nothing."""

from itinerary.protocol.errors import ItineraryError


def job_ids(incomplete: str) -> list[str]:
    """Return ids of jobs with this prefix, if an API answers soon."""
    from scheduler_service.cli.connect import open_client

    try:
        with open_client(timeout=1, retries=0) as client:
            found = client.jobs(q=incomplete or None, limit=200)["items"]
    except ItineraryError:
        return []
    return [job["job_id"] for job in found if job["job_id"].startswith(incomplete)]


def limit_names(incomplete: str) -> list[str]:
    """Return names of limits with this prefix, if an API answers soon."""
    from scheduler_service.cli.connect import open_client

    try:
        with open_client(timeout=1, retries=0) as client:
            return [limit.name for limit in client.limits() if limit.name.startswith(incomplete)]
    except ItineraryError:
        return []


def calendar_ids(incomplete: str) -> list[str]:
    """Return ids of calendars with this prefix, if an API answers soon."""
    from scheduler_service.cli.connect import open_client

    try:
        with open_client(timeout=1, retries=0) as client:
            return [one.calendar_id for one in client.calendars() if one.calendar_id.startswith(incomplete)]
    except ItineraryError:
        return []


def states(incomplete: str) -> list[str]:
    """Return states of runs with this prefix."""
    from scheduler_service.core.run_state import RunState

    return [state.value for state in RunState if state.value.startswith(incomplete)]
