"""What is installed in a cluster fits what the process expects."""

from pathlib import Path

import yaml

from apiserver import manifests, registration
from apiserver.status import GROUP
from controlplane.plane import ControlPlane
from tests.tools.installation import built, strictly_applied
from toolkit.kube import options

DEPLOY = Path(__file__).parents[3] / "deploy" / "base" / "apiserver"


def test_the_manifests_apply_under_strict_validation(
    control_plane: ControlPlane, namespace: str
) -> None:
    applied = strictly_applied(control_plane, DEPLOY, namespace)

    for wanted in ("deployment.apps/penstock-apiserver", "service/penstock-apiserver"):
        assert wanted in applied
    # It is registered by the process, when it serves.
    assert "apiservice" not in applied


def test_what_the_manifests_say_is_what_the_process_expects(control_plane: ControlPlane) -> None:
    documents = {each["kind"]: each for each in built(control_plane, DEPLOY)}
    template = documents["Deployment"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    service = documents["Service"]
    read = yaml.safe_load((DEPLOY / "apiservice.yaml").read_text())

    parsed = options.parse(container["args"], components=("apiserver",))

    assert service["metadata"]["name"] == registration.NAME
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["port"] == parsed.apiservice_port
    assert template["spec"]["serviceAccountName"] == registration.NAME
    assert f":{container['ports'][0]['containerPort']}" == parsed.secure_addr
    assert read["spec"]["service"]["port"] == parsed.apiservice_port
    spare = parsed.shutdown_delay_duration + parsed.graceful_shutdown_timeout
    assert template["spec"]["terminationGracePeriodSeconds"] > spare


def test_the_process_may_read_no_secret_but_its_own() -> None:
    rules = [*manifests.permissions(), *manifests.namespace_permissions()]

    assert not [rule for rule in manifests.permissions() if "secrets" in rule.resources]
    assert not [rule for rule in rules if "impersonate" in rule.verbs or "*" in rule.verbs]
    for rule in manifests.namespace_permissions():
        if "secrets" in rule.resources and rule.verbs != ("create",):
            assert all(name.startswith(registration.NAME) for name in rule.names)


def test_what_holds_content_is_not_for_those_who_only_view() -> None:
    seen = {each for rule in manifests.VIEW for each in rule.resources}

    assert all(rule.groups == (GROUP,) for rule in (*manifests.VIEW, *manifests.EDIT))
    assert {"artifacts/content", "artifacts/files", "inventories/diff"}.isdisjoint(seen)
