"""Alert rules and dashboard: every expression parses and asks for figures that a running leader shows."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families

from itinerary.protocol.identity import adhoc_run_id
from scheduler_service.core.model import NewRun, RunKind
from tests.support.leading import LeaderThread
from tests.support.manifests import DEPLOY, documents
from tests.support.processes import MANUAL, wait_until

PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
GROUPS = documents(PROMETHEUS / "alerts.yml")[0]["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

LABELS = {
    "scheduler_sla_total": {"outcome"},
    "scheduler_monitors": {"state"},
    "scheduler_pings_total": {"outcome"},
    "scheduler_runs_total": {"state"},
    "scheduler_misfires_total": {"policy"},
    "scheduler_skips_total": {"reason"},
    "scheduler_republished_total": {"cause"},
    "scheduler_events_ignored_total": {"cause"},
    "scheduler_queue_pending_runs": {"queue"},
    "scheduler_queue_backlog_runs": {"queue"},
    "scheduler_queue_window": {"queue"},
    "scheduler_queue_paused": {"queue"},
    "scheduler_limit_in_flight_runs": {"limit"},
    "scheduler_limit_waiting_runs": {"limit"},
    "scheduler_limit_oldest_waiting_seconds": {"limit"},
    "scheduler_slot_job_count": {"hour"},
    "scheduler_placements_total": {"type"},
    "scheduler_notifications_total": {"outcome"},
    "scheduler_pruned_rows_total": {"table"},
}
SCRAPED = {"job", "instance"}
"""What Prometheus itself adds; `up` is its own, too."""

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool judges it")


def expressions() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m")
    for annotation in DASHBOARD["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


EXPRESSIONS = list(expressions())


def parts(expression: Any) -> Iterator[Any]:
    """The expression and everything in it."""
    yield expression
    for name in ("expr", "lhs", "rhs", "param", "vector_selector"):
        inner = getattr(expression, name, None)
        if inner is not None:
            yield from parts(inner)
    for argument in getattr(expression, "args", None) or []:
        yield from parts(argument)


def asked(text: str) -> tuple[set[str], set[str], set[str]]:
    """The series that an expression reads, the labels that it matches, and those that it groups by."""
    found = list(parts(promql_parser.parse(text)))
    selectors = [part for part in found if isinstance(part, promql_parser.VectorSelector)]
    grouping = {
        label for part in found if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None
        for label in part.modifier.labels
    }  # fmt: skip
    matched = {matcher.name for selector in selectors for matcher in selector.matchers.matchers}
    return {selector.name for selector in selectors}, matched, grouping


@pytest.fixture(scope="module")
def shown(
    _session_redis: str, _sqlite_template: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, set[str]]]:
    """Of each series that a leader in work shows: the values of each of its labels."""
    database = tmp_path_factory.mktemp("figures") / "itinerary.db"
    shutil.copy(_sqlite_template, database)
    with LeaderThread(f"sqlite:///{database}", _session_redis) as one:
        one.runs.enqueue([NewRun(adhoc_run_id("one"), RunKind.ADHOC, "demo.task", 0, 0)])
        wait_until(
            lambda: 'scheduler_queue_pending_runs{queue="default"} 1.0' in one.meter.exposition(),
            what="the run to be out, and counted",
        )
        text = one.meter.exposition()
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found.setdefault(name, {}) if family.type != "histogram" else None
        for sample in family.samples:
            for label, value in sample.labels.items():
                found.setdefault(sample.name, {}).setdefault(label, set()).add(value)
            found.setdefault(sample.name, {})
    return found


@pytest.mark.redis
@pytest.mark.parametrize(("name", "text"), EXPRESSIONS, ids=[name for name, _ in EXPRESSIONS])
def test_an_expression_asks_for_what_a_running_leader_shows(
    name: str, text: str, shown: dict[str, dict[str, set[str]]]
) -> None:
    series, matched, grouping = asked(text)
    assert series
    known = set(SCRAPED)
    for one in series - {"up"}:
        assert one in shown, f"{name}: there is no {one}"
        known |= LABELS.get(one, set()) | ({"le"} if one.endswith("_bucket") else set())
    assert matched | grouping <= known, name


@pytest.mark.redis
def test_the_labels_that_are_named_here_are_those_that_are_shown(shown: dict[str, dict[str, set[str]]]) -> None:
    for series, labels in LABELS.items():
        assert series in shown
        assert set(shown[series]) in (labels, set()), series


@pytest.mark.redis
def test_a_value_that_a_rule_matches_is_one_that_the_leader_shows(shown: dict[str, dict[str, set[str]]]) -> None:
    for _, text in EXPRESSIONS:
        for series, states in re.findall(r'(\w+)\{state=~?"([^"]+)"', text):
            assert set(states.split("|")) <= shown[series]["state"]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_a_rule_says_how_bad_it_is_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Itinerary[A-Za-z]+", rule["alert"])
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description"}
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))


def test_every_threshold_is_explained_where_somebody_is_woken() -> None:
    manual = (MANUAL / "deploying.md").read_text("utf-8")
    for rule in RULES:
        assert f"`{rule['alert']}`" in manual


def test_the_leaders_are_scraped_where_their_port_is() -> None:
    (scrape,) = documents(PROMETHEUS / "prometheus.yml")[0]["scrape_configs"]
    (found,) = scrape["dns_sd_configs"]
    leader = documents(DEPLOY / "compose.yaml")[0]["services"]["leader"]
    assert found["names"] == ["leader"]
    assert str(found["port"]) == leader["environment"]["ITINERARY_METRICS_PORT"]
    assert f'job="{scrape["job_name"]}"' in (PROMETHEUS / "alerts.yml").read_text()


def test_the_dashboard_lies_where_grafana_looks_for_it_and_fills_its_grid() -> None:
    (provider,) = documents(DEPLOY / "grafana/provisioning/dashboards/itinerary.yaml")[0]["providers"]
    mounts = documents(DEPLOY / "compose.yaml")[0]["services"]["grafana"]["volumes"]
    assert any(mount.split(":")[1].startswith(provider["options"]["path"]) for mount in mounts)
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_every_panel_says_what_it_is_in_a_unit_from_the_chosen_source() -> None:
    (source,) = DASHBOARD["templating"]["list"]
    assert source["type"] == "datasource"
    for panel in PANELS:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == f"${{{source['name']}}}"
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


@needs_promtool
def test_prometheus_itself_accepts_the_configuration() -> None:
    _promtool("check", "config", "prometheus.yml")


@needs_promtool
def test_the_rules_fire_when_they_should() -> None:
    _promtool("test", "rules", "alerts_test.yml")


def _promtool(*words: str) -> None:
    done = subprocess.run(["promtool", *words], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
