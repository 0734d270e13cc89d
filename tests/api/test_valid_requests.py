"""Requests that are valid by the document are accepted, but for what no schema can say: the list of those rules."""

import re
from collections.abc import Callable

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from tests.support.answering_leader import AnsweringLeader
from tests.support.api_calls import CALLS

pytestmark = pytest.mark.slow
BOUNDED = settings(
    max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
# What stands between two fields, in the database of zones, in a calendar or in the meaning of a text.
RULES = re.compile(
    r"give the next_cursor of the page before|give 5 fields|is not understood|never comes|no date ever matches"
    r"|give an IANA time zone|give a time in the future|give a time before `to`|give a time in the past"
    r"|give a time after|add an offset|does not exist in|none of these days|date that exists|date and time that exist"
    r"|day is out of range|out of range|date value out of range|day \d+ must be in range"
    r"|only a calendar of (months|weeks)|a (balanced|pinned)? ?interval|only a balanced interval"
    r"|from 0s up to, and less than, every|whole seconds|give a duration from|a whole number from 1 to (520|120)"
    r"|give another name|give it another name|Redis keeps something else|give the id in the path"
    r"|the header Idempotency-Key differs|name a source|duplicate"
    r"|give a Celery task name|printable characters|half of a surrogate pair|does not fit 64 bits"
    r"|nested|nest \d+ levels"
    r"|one of sun, mon|schedule of kind \w+ has kind|this field is not known"
    r"|give a duration such as .*, at most|the window holds|run_at plus start_within"
    r"|no limit has this name|name each limit once|whole number in the job's own args and kwargs|are shown"
    r"|give concurrency, rate or both|only a limit with per_key has keys|leave it out: the limit"
    r"|there is no such job|a freeze does not reach back"
    r"|parts such as FREQ=DAILY|a year from 1900 to 2399|name a calendar in exclude, only or workdays"
    r"|never has it|zone files as|no others were adopted|a date such as|give its code|RFC 3339 time with an offset"
    r"|count by free days|give nth as well|an address that begins with https|a schedule of its own is placed"
    r"|at most 366 days after the beginning|the window has more than|give whole minutes|nothing places a monitor"
    r"|give a day such as|at most 7 days by hour|nobody signs in here|give path and query"
    r"|such as mon-fri|to subscribe to it|give two days|a list of 1 to 50 times|give it as text|give both, or none"
    r"|an empty filter finds everything|leave it out where a filter|name the states to run"
    r"|name the queue to move to|this belongs to (move|pause)"
    r"|give calendars in exclude or only|in exclude or in only, not in both|only wall times move"
    r"|no calendar has this id|days are moved and counted"
    r"|a name begins with a letter or digit|a text of 1 to 200 characters|Celery or Itinerary sends this header"
)
# JSON Schema calls 5.0 an integer; the API wants it written as one.
WHOLE_FLOAT = re.compile(r": -?\d+(\.0|(\.\d+)?e\+?\d+) is not accepted")


def test_what_the_document_calls_valid_is_refused_by_a_rule_that_no_schema_can_say(
    api: TestClient, job: dict[str, object], leader: AnsweringLeader
) -> None:
    api.post("/api/v1/jobs", json={**job, "job_id": "0"})
    schema = schemathesis.openapi.from_dict(api.get("/openapi.json").json())
    unexplained: dict[tuple[str, str, str], str] = {}
    tried = 0

    def check(case: schemathesis.Case, path: str) -> None:
        nonlocal tried
        tried += 1
        answer = case.call(app=api.app, base_url="http://127.0.0.1")
        if answer.status_code in (400, 422):
            problem = answer.json()
            for error in problem.get("errors") or [{"loc": [], "msg": problem["detail"]}]:
                place = ".".join(part for part in error["loc"] if not part.isdigit())
                of_cron = place.endswith(
                    ("schedule.expr", "schedule.of.expr")
                )  # what a line means, its own tests judge
                if not (of_cron or RULES.search(error["msg"]) or WHOLE_FLOAT.search(error["msg"])):
                    unexplained.setdefault((case.method, path, place), error["msg"])

    for path, methods in CALLS.items():
        for method in sorted(methods):
            strategy = schema[path][method.upper()].as_strategy(generation_mode=GenerationMode.POSITIVE)
            BOUNDED(given(case=strategy)(_of(path, check)))()
    assert tried > 400
    assert not unexplained, "\n".join(map(str, unexplained.items()))


def _of(path: str, check: Callable[[schemathesis.Case, str], None]) -> Callable[[schemathesis.Case], None]:
    def ask(case: schemathesis.Case) -> None:
        check(case, path)

    return ask
