"""deploy/kubernetes: valid by the cluster's own schemas, and its parts fit each other and the program."""

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest

from scheduler_service.api.http.auth import check_exposure
from scheduler_service.metrics.leader import PrometheusMeter
from tests.support.manifests import COMMANDS, DEPLOY, documents, is_pinned, settings_of, walk

FOLDER = DEPLOY / "kubernetes"
BASE = FOLDER / "base"
OLDER, NEWEST = ("1.32", "1.34"), "1.37"
OUTSIDE = {"keda.sh/v1alpha1", "kustomize.config.k8s.io/v1beta1"}
"""Kinds that the cluster itself does not know."""

Manifest = dict[str, Any]
KUSTOMIZATION = documents(BASE / "kustomization.yaml")[0]
MANIFESTS = [m for path in sorted(FOLDER.rglob("*.yaml")) for m in documents(path) if "apiVersion" in m]
EXAMPLE_SECRET = documents(FOLDER / "secret.example.yaml")[0]


def named(manifest: Manifest) -> str:
    return f"{manifest['kind']}/{manifest.get('metadata', {}).get('name', '')}"


def of_kind(*kinds: str) -> list[Manifest]:
    return [m for m in MANIFESTS if m["kind"] in kinds]


WORKLOADS = of_kind("Deployment", "Job")


def pod(workload: Manifest) -> dict[str, Any]:
    spec: dict[str, Any] = workload["spec"]["template"]["spec"]
    return spec


def container(workload: Manifest) -> dict[str, Any]:
    (only,) = pod(workload)["containers"]
    assert isinstance(only, dict)
    return only


def labels(workload: Manifest) -> dict[str, str]:
    """Of its pods, those that the kustomization adds among them."""
    (added,) = KUSTOMIZATION["labels"]
    assert added["includeTemplates"]
    return {**workload["spec"]["template"]["metadata"]["labels"], **added["pairs"]}


def component(workload: Manifest) -> str:
    return labels(workload)["app.kubernetes.io/component"]


def selects(selector: dict[str, Any], workload: Manifest) -> bool:
    carried = labels(workload)
    plain = selector.get("matchLabels", selector if "matchExpressions" not in selector else {})
    within = all(carried.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", []))
    return within and plain.items() <= carried.items()


@pytest.mark.parametrize("release", [pytest.param(older, marks=pytest.mark.slow) for older in OLDER] + [NEWEST])
def test_every_manifest_is_valid_by_the_clusters_schema(release: str) -> None:
    for manifest in MANIFESTS:
        if manifest["apiVersion"] not in OUTSIDE:
            kubernetes_validate.validate(manifest, release, strict=True)


def test_the_base_lists_every_file() -> None:
    files = {path.name for path in BASE.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == files
    for other in ("keda", "hpa", "notify"):
        (listed,) = documents(FOLDER / other / "kustomization.yaml")[0]["resources"]
        assert (FOLDER / other / listed).exists()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl builds it")
@pytest.mark.parametrize("part", ["base", "keda", "hpa", "notify"])
def test_kustomize_builds_it(part: str) -> None:
    built = subprocess.run(["kubectl", "kustomize", str(FOLDER / part)], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr


def test_a_name_is_given_once() -> None:
    names = [named(m) for m in MANIFESTS if m["kind"] != "Kustomization"]
    assert len(names) == len(set(names))


def test_every_part_runs_a_command_of_the_program_with_settings_that_it_accepts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = EXAMPLE_SECRET["stringData"]
    (config,) = of_kind("ConfigMap")
    assert {component(w) for w in WORKLOADS} == COMMANDS
    for workload in WORKLOADS:
        only = container(workload)
        assert only["args"][0] == component(workload)
        environment = dict(config["data"])
        for variable in only["env"]:
            reference = variable.get("valueFrom", {}).get("secretKeyRef")
            assert reference is None or reference["name"] == EXAMPLE_SECRET["metadata"]["name"]
            environment[variable["name"]] = given[reference["key"]] if reference else variable["value"]
        settings = settings_of(environment, monkeypatch)
        check_exposure(settings)
        assert settings.database_url.startswith("postgresql") == (component(workload) in ("leader", "api", "migrate"))
        assert bool(settings.flower_password) == (component(workload) in ("flower", "api"))


def test_those_who_notify_take_its_settings_where_they_are_given() -> None:
    wanted = {"secretRef": {"name": "itinerary-notify", "optional": True}}
    assert {component(w) for w in WORKLOADS if wanted in container(w)["envFrom"]} == {"leader", "api"}


def test_a_secret_is_never_written_into_a_manifest() -> None:
    assert not of_kind("Secret")[1:]
    assert "secret.example.yaml" not in KUSTOMIZATION["resources"]
    for workload in WORKLOADS:
        for variable in container(workload)["env"]:
            secret = any(word in variable["name"] for word in ("URL", "TOKEN", "PASSWORD"))
            assert secret == ("valueFrom" in variable), variable


def test_pods_obey_the_restricted_standard_with_a_read_only_root() -> None:
    for workload in WORKLOADS:
        inside, around = container(workload)["securityContext"], pod(workload)["securityContext"]
        assert inside["allowPrivilegeEscalation"] is False
        assert inside["readOnlyRootFilesystem"] is True
        assert inside["capabilities"] == {"drop": ["ALL"]}
        assert around["runAsNonRoot"] is True
        assert around["runAsUser"] >= 10000
        assert around["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod(workload)["automountServiceAccountToken"] is False
        assert not any(path.endswith((".hostPath", ".hostNetwork")) for path, _ in walk(pod(workload)))


def test_every_container_has_bounds_and_none_of_a_leader_is_throttled() -> None:
    for workload in WORKLOADS:
        bounds = container(workload)["resources"]
        assert {"cpu", "memory"} <= bounds["requests"].keys()
        assert "memory" in bounds["limits"]
        if component(workload) == "leader":
            assert "cpu" not in bounds["limits"]


def test_images_are_pinned_in_one_place() -> None:
    (ours,) = KUSTOMIZATION["images"]
    assert is_pinned(f"{ours['name']}:{ours['newTag']}")
    assert {container(w)["image"] for w in WORKLOADS} == {ours["name"]}


def test_each_selector_finds_the_pods_of_its_own_part() -> None:
    for workload in of_kind("Deployment"):
        assert selects(workload["spec"]["selector"], workload), named(workload)
    for other in of_kind("PodDisruptionBudget", "Service"):
        found = [w for w in of_kind("Deployment") if selects(other["spec"]["selector"], w)]
        assert [named(w).partition("/")[2] for w in found] == [named(other).partition("/")[2]]


def test_each_port_that_is_named_is_there() -> None:
    for workload in of_kind("Deployment"):
        ports = {port["name"] for port in container(workload).get("ports", [])}
        probed = {
            value
            for path, value in walk(container(workload))
            if path.endswith("httpGet.port")
        }  # fmt: skip
        assert probed <= ports
    for service in of_kind("Service"):
        (workload,) = [w for w in of_kind("Deployment") if selects(service["spec"]["selector"], w)]
        ports = {port["name"] for port in container(workload)["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_two_leaders_on_two_nodes_of_which_one_always_stays() -> None:
    (leader,) = [w for w in of_kind("Deployment") if component(w) == "leader"]
    assert leader["spec"]["replicas"] == 2
    (apart,) = pod(leader)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert selects(apart["labelSelector"], leader)
    (budget,) = [b for b in of_kind("PodDisruptionBudget") if selects(b["spec"]["selector"], leader)]
    assert budget["spec"]["minAvailable"] == 1
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container(leader).keys()


def test_a_stopped_part_is_given_the_time_that_it_needs() -> None:
    grace = {component(w): pod(w)["terminationGracePeriodSeconds"] for w in of_kind("Deployment")}
    assert grace["worker"] >= 600  # its longest task
    assert grace["leader"] >= 20
    assert grace["api"] >= 5 + 5  # until nobody sends any more, and the open requests


def test_nothing_is_reached_that_no_policy_allows() -> None:
    policies = of_kind("NetworkPolicy")
    closed = next(p for p in policies if set(p["spec"]) == {"podSelector", "policyTypes"})
    assert set(closed["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    assert all(selects(closed["spec"]["podSelector"], w) for w in WORKLOADS)
    told = [p for p in policies if p["metadata"]["name"] == "itinerary-notify"]
    assert {component(w) for w in WORKLOADS if set(_egress(told, w)) == {443, 465, 587}} == {"leader", "api"}
    policies = [p for p in policies if p not in told]
    reached = {component(w): set(_egress(policies, w)) for w in WORKLOADS}
    assert {part for part, ports in reached.items() if 5432 in ports} == {"migrate", "leader", "api"}
    assert {part for part, ports in reached.items() if 6379 in ports} == {"leader", "api", "worker", "flower"}
    assert all(53 in ports for ports in reached.values())
    assert {part for part, ports in reached.items() if None in ports} == {"worker"}


def _egress(policies: list[Manifest], workload: Manifest) -> Iterator[int | None]:
    """The ports that the pods may call; None: all of them."""
    for policy in policies:
        if selects(policy["spec"]["podSelector"], workload):
            for rule in policy["spec"].get("egress", []):
                yield from [port["port"] for port in rule["ports"]] if "ports" in rule else [None]


def test_both_autoscalers_scale_the_workers_by_what_is_there() -> None:
    (worker,) = [w for w in of_kind("Deployment") if component(w) == "worker"]
    assert "replicas" not in worker["spec"]  # they own it
    (scaled,), (plain,) = of_kind("ScaledObject"), of_kind("HorizontalPodAutoscaler")
    assert scaled["spec"]["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    assert plain["spec"]["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    (trigger,) = scaled["spec"]["triggers"]
    queues = container(worker)["args"][container(worker)["args"].index("-Q") + 1].split(",")
    assert trigger["type"] == "redis"
    assert trigger["metadata"]["listName"] in queues
    (metric,) = (one["external"]["metric"] for one in plain["spec"]["metrics"])
    assert metric["selector"]["matchLabels"]["queue"] in queues
    assert f"# TYPE {metric['name']} gauge" in PrometheusMeter().exposition()
    (rule,) = documents(FOLDER / "hpa" / "adapter-rule.example.yaml")[0]["rules"]["external"]
    assert rule["seriesQuery"] == metric["name"]
    assert plain["spec"]["behavior"]["scaleDown"] == {
        **scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    }


def test_keda_is_given_keys_that_the_secret_has() -> None:
    (asked,) = of_kind("TriggerAuthentication")
    for reference in asked["spec"]["secretTargetRef"]:
        assert reference["name"] == EXAMPLE_SECRET["metadata"]["name"]
        assert reference["key"] in EXAMPLE_SECRET["stringData"]
    (scaled,) = of_kind("ScaledObject")
    assert {t["authenticationRef"]["name"] for t in scaled["spec"]["triggers"]} == {asked["metadata"]["name"]}
