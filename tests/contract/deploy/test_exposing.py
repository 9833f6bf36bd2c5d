"""Manifests of the documentation that expose Receivers, on a real API server with real schemas."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools import namespaces
from tests.tools.administrator import Administrator, RefusedError
from tests.tools.gatewayapi import definitions
from toolkit.objects import Json, dig

ROOT = Path(__file__).parents[3]
SERVED = {"Ingress": "ingresses", "HTTPRoute": "httproutes"}
"""Kinds of others that the page on Receivers has examples of."""
ROUTES = "/apis/gateway.networking.k8s.io/v1/httproutes"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def documents(path: str, pattern: str) -> list[Json]:
    text = (ROOT / path).read_text()
    blocks = re.findall(pattern, text, re.DOTALL)
    loaded = [each for block in blocks for each in yaml.safe_load_all(block)]
    return [each for each in loaded if isinstance(each, dict)]


EXAMPLES = {
    each["kind"]: each
    for each in documents("docs/receivers.md", r"```yaml\n(.*?)```")
    if each.get("kind") in SERVED
}
SERVICE = next(
    each
    for each in documents("deploy/base/notification/notification-controller.yaml", r"(.*)")
    if dig(each, "metadata", "name") == "webhook-receiver"
)


@pytest.fixture(scope="module")
def gateways(administrator: Administrator) -> Iterator[None]:
    """Have the API server serve HTTPRoutes."""
    made = definitions.definition("httproutes")
    administrator.send("POST", DEFINITIONS, made)
    deadline = time.monotonic() + 60
    while not served(administrator):
        assert time.monotonic() < deadline, "HTTPRoutes are not served"
        time.sleep(0.05)
    yield
    administrator.send("DELETE", f"{DEFINITIONS}/{made['metadata']['name']}")


def served(administrator: Administrator) -> bool:
    try:
        administrator.send("GET", ROUTES)
    except (RefusedError, ValueError):  # "404 page not found", which is not JSON
        return False
    return True


@pytest.fixture(scope="module")
def space(administrator: Administrator) -> Iterator[str]:
    """Give a namespace for the module, whose tests leave nothing in it."""
    name = namespaces.create_blocking(administrator)
    yield name
    namespaces.delete_blocking(administrator, name)


def send(administrator: Administrator, obj: Json, namespace: str) -> None:
    """Apply an object by a dry run under strict validation."""
    metadata = {**obj["metadata"], "namespace": namespace}
    plural = SERVED[obj["kind"]]
    administrator.send(
        "PATCH",
        f"/apis/{obj['apiVersion']}/namespaces/{namespace}/{plural}/{metadata['name']}",
        {**obj, "metadata": metadata},
        content="application/apply-patch+yaml",
        query={"dryRun": "All", "fieldManager": "test", "fieldValidation": "Strict"},
    )


@pytest.mark.usefixtures("gateways")
@pytest.mark.parametrize("kind", SERVED)
def test_an_example_is_taken_under_strict_validation(
    administrator: Administrator, space: str, kind: str
) -> None:
    send(administrator, EXAMPLES[kind], space)

    with pytest.raises(RefusedError, match="pathTypo"):
        send(administrator, with_typo(EXAMPLES[kind]), space)


def with_typo(value: Any) -> Any:
    """Return a manifest whose paths are misspelt."""
    if isinstance(value, list):
        return [with_typo(each) for each in value]
    if isinstance(value, dict):
        return {
            "pathTypo" if key == "path" else key: with_typo(each) for key, each in value.items()
        }
    return value


def test_examples_lead_to_the_service_of_hooks_and_its_path_alone() -> None:
    ports = {each["name"]: each["port"] for each in SERVICE["spec"]["ports"]}
    ((path,),) = [rule["http"]["paths"] for rule in EXAMPLES["Ingress"]["spec"]["rules"]]
    (route,) = EXAMPLES["HTTPRoute"]["spec"]["rules"]
    (match,) = route["matches"]
    (backend,) = route["backendRefs"]

    assert path["path"] == match["path"]["value"] == "/hook/"
    assert path["backend"]["service"]["name"] == backend["name"] == "webhook-receiver"
    assert ports[path["backend"]["service"]["port"]["name"]] == backend["port"]
    assert list(ports.values()) == [80]
