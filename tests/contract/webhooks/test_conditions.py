"""No expression that the API server evaluates for us fails, whatever an object looks like.

An error in one of the ``matchConditions`` refuses the write, for all users of the cluster. Each
shipped condition is registered here by itself, for the requests that its plugin is asked about and
for a kind that takes any content. No process is called, and neither answer refuses: nothing but
an error does.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest
import pytest_asyncio

import crds
from certs import injection
from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate, opened
from tests.fakes import specs
from toolkit.kube.errors import ApiError, ForbiddenError, NotFoundError
from toolkit.objects import GroupVersionKind, Json
from webhooks import configuration
from webhooks.plugins import PLUGINS

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUP: Final = "odd.tests.penstock.dev"
DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
HELD: Final = "example.com/held"
MISSING: Final = "missing"
"""Stands for a field that is not there."""
MARKED: Final = "RU5DW0FFUzI1Nl9HQ00s"

VALUES: Final[tuple[Any, ...]] = (
    MISSING,
    None,
    "text",
    7,
    True,
    [],
    [None, 1, "a"],
    {},
    {"a": None},
    {"a": 1, "b": [None], "c": {"d": None}},
    {"a": MARKED, "b": None},
    {"a": "x" * 400_000},
    {f"k{number}": number for number in range(1_000)},
)
"""What ``spec``, ``data`` and ``status`` are."""
NOTE: Final = "image.penstock.dev/pull-request"
METADATA: Final[tuple[Json, ...]] = (
    {},
    {"labels": None, "annotations": None, "ownerReferences": None, "deletionTimestamp": None},
    {"labels": {}, "annotations": {}, "ownerReferences": []},
    {"labels": {"a": None, "policy.penstock.dev/a": None}, "annotations": {NOTE: None}},
    {"labels": {"policy.penstock.dev/provenance": ""}, "annotations": {NOTE: ""}},
    {"annotations": {f"a{number}": "" for number in range(2_000)}},
    {"labels": {f"policy.penstock.dev/a{number}": "" for number in range(2_000)}},
)


def _conditions(gate: Gate) -> Iterator[tuple[str, Json]]:
    """Yield each shipped condition and its webhook, shared with other plugins and by itself."""
    for rows in (PLUGINS, *((row,) for row in PLUGINS)):
        for registered in configuration.configurations(rows, gate.target):
            for webhook in registered["webhooks"]:
                for condition in webhook["matchConditions"]:
                    yield condition["expression"], webhook


def _alone(gate: Gate, number: int, expression: str, webhook: Json) -> Json:
    """Return a webhook that evaluates a condition for its own requests, and for odd objects."""
    operations = sorted({each for rule in webhook["rules"] for each in rule["operations"]})
    odd = {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["*/*"], "scope": "*"}
    return {
        "name": f"condition-{number}.tests.penstock.dev",
        "rules": [*webhook["rules"], {**odd, "operations": operations}],
        "matchConditions": [{"name": "evaluates", "expression": f"({expression}) ? false : false"}],
        "clientConfig": gate.target.client_config("/nobody"),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }


def _registration(gate: Gate) -> Json:
    """Return the configuration; its last webhook fails for an object named ``probe``."""
    shipped = dict(_conditions(gate))
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    probe = {"rules": [{**rule, "operations": ["CREATE"]}]}
    failing = "object.metadata.name == 'probe' && object.metadata.labels['none'] == ''"
    return {
        "apiVersion": injection.VALIDATING.api_version,
        "kind": injection.VALIDATING.kind,
        "metadata": {"name": f"conditions.{gate.installed}"},
        "webhooks": [
            _alone(gate, number, *each)
            for number, each in enumerate([*shipped.items(), (failing, probe)])
        ],
    }


def _definition() -> Json:
    """Return the definition of a kind that takes any content."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": "odds", "singular": "odd", "kind": "Odd", "listKind": "OddList"}
    return {
        "apiVersion": DEFINITION.api_version,
        "kind": DEFINITION.kind,
        "metadata": {"name": f"odds.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


class Writer:
    """Writes as the administrator; every condition is evaluated."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.namespace = f"namespaces/{gate.namespace}"
        self.odds = f"/apis/{GROUP}/v1/{self.namespace}/odds"

    async def send(self, method: str, path: str, body: Json, *, dry_run: bool = True) -> Json:
        """Send a write that must not be refused because an expression failed."""
        query = {"dryRun": "All"} if dry_run else {}
        try:
            return await self._gate.admin.request(method, path, query=query, body=body)
        except ForbiddenError as error:
            pytest.fail(f"{method} {path} {str(body)[:200]}: {str(error)[:1000]}")

    async def attempt(self, method: str, path: str, body: Json) -> str:
        """Send a write that the API server may refuse for its own reasons; return its words."""
        try:
            await self.send(method, path, body)
        except ApiError as error:
            return str(error)
        return ""

    async def fields(self, definition: str) -> list[str]:
        """Return the fields of a kind's spec."""
        live = await self._gate.admin.get(DEFINITION, definition)
        stored = next(each for each in live["spec"]["versions"] if each["storage"])
        schema = stored["schema"]["openAPIV3Schema"]["properties"]["spec"]
        return list(schema.get("properties", ()))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def writer(control_plane: ControlPlane, definitions: None) -> AsyncIterator[Writer]:
    """Register all conditions, and define the kind that takes anything."""
    del definitions
    async with opened(control_plane) as gate:
        registration, definition = _registration(gate), _definition()
        await gate.admin.create(registration)
        await gate.admin.create(definition)
        made = Writer(gate)

        async def evaluated() -> bool:
            try:
                await gate.write(gate.config_map("probe"), dry_run=True)
            except ForbiddenError as error:
                return "no such key: labels" in str(error)
            return False

        async def served() -> bool:
            with contextlib.suppress(NotFoundError):
                return bool(await gate.admin.request("GET", made.odds))
            return False

        try:
            await gate.until(evaluated)
            await gate.until(served)
            yield made
        finally:
            for gvk, obj in ((injection.VALIDATING, registration), (DEFINITION, definition)):
                await gate.admin.delete(gvk, obj["metadata"]["name"])


def _odd(name: str, value: Any, *, metadata: Json | None = None) -> Json:
    fields = {} if value == MISSING else dict.fromkeys(("spec", "data", "status"), value)
    about = {**(metadata or {}), "name": name, "finalizers": [HELD]}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Odd", "metadata": about, **fields}


ODDS: Final = tuple(_odd(f"value-{number}", value) for number, value in enumerate(VALUES)) + tuple(
    _odd(f"metadata-{number}", MISSING, metadata=each) for number, each in enumerate(METADATA)
)


async def _each_becomes_another(writer: Writer, stored: list[Json]) -> None:
    for number, old in enumerate(stored):
        path = f"{writer.odds}/{old['metadata']['name']}"
        new = ODDS[number - 1]
        known = {name: old["metadata"][name] for name in ("name", "resourceVersion")}
        body = {**new, "metadata": {**new["metadata"], **known}}
        await writer.send("PUT", path, body)
        await writer.send("PUT", f"{path}/status", body)
        await writer.send("DELETE", path, {})


async def test_conditions_evaluate_for_any_object_before_and_while_it_is_deleted(
    writer: Writer,
) -> None:
    stored = [await writer.send("POST", writer.odds, obj, dry_run=False) for obj in ODDS]

    await _each_becomes_another(writer, stored)
    deleted = [
        await writer.send("DELETE", f"{writer.odds}/{old['metadata']['name']}", {}, dry_run=False)
        for old in stored
    ]
    await _each_becomes_another(writer, deleted)

    for old in deleted:
        path = f"{writer.odds}/{old['metadata']['name']}"
        about = {**old["metadata"], "finalizers": []}
        await writer.send("PUT", path, {**old, "metadata": about}, dry_run=False)


def _kubernetes(kind: str, *, group: str = "v1", **fields: Any) -> Json:
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "odd"}, **fields}


_CONTAINER: Final = {"name": "a", "image": "a", "env": None, "args": [None], "resources": None}
_POD: Final = {"containers": [_CONTAINER], "volumes": None, "initContainers": None}
_MARKED: Final = f"{MARKED}AAAA"
_LARGE: Final = {
    f"k{number:04}": "QUFB" * 80 for number in range(4096)
}  # 1 MiB of text in as many entries as are looked through

SECRETS: Final[tuple[Json, ...]] = (
    {},
    {"data": None},
    {"data": {}},
    {"data": {"empty": None, "full": "eA=="}},
    {"data": {"empty": None, "marked": _MARKED}},
    {"data": {"empty": ""}, "stringData": {"a": None}},
    {"stringData": None},
    {"data": _LARGE},
    {"data": {f"k{number}": None for number in range(40_000)}},
)


@pytest.mark.parametrize("fields", SECRETS, ids=lambda fields: str(fields)[:40])
async def test_secret_of_any_form_is_the_api_servers_business(writer: Writer, fields: Json) -> None:
    path = f"/api/v1/{writer.namespace}/secrets"
    labels = {"labels": {"sops.penstock.dev/decrypt": "true"}, "annotations": None}
    labelled = _kubernetes("Secret", **fields)
    labelled["metadata"] |= labels

    await writer.send("POST", path, _kubernetes("Secret", **fields))
    await writer.send("POST", path, labelled)


NAMESPACES: Final = METADATA[:5]


@pytest.mark.parametrize("old", NAMESPACES, ids=lambda metadata: str(metadata)[:40])
async def test_namespace_of_any_form_is_the_api_servers_business(writer: Writer, old: Json) -> None:
    name = f"odd-{NAMESPACES.index(old)}"
    body = _kubernetes("Namespace")
    body["metadata"] = {**old, "name": name}
    path = f"/api/v1/namespaces/{name}"

    await writer.send("POST", "/api/v1/namespaces", body, dry_run=False)
    new = NAMESPACES[NAMESPACES.index(old) - 1]
    changed = {**body, "metadata": {**new, "name": name}}
    for subresource in ("", "/status", "/finalize"):
        await writer.send("PUT", f"{path}{subresource}", changed)
    await writer.send("DELETE", path, {}, dry_run=False)


async def test_subresources_and_workloads_with_nulls_are_the_api_servers_business(
    writer: Writer,
) -> None:
    core, apps = f"/api/v1/{writer.namespace}", f"/apis/apps/v1/{writer.namespace}"
    template = {"metadata": {"labels": {"a": "b"}, "annotations": None}, "spec": _POD}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = _kubernetes("Deployment", group="apps/v1", spec=spec, status=None)
    await writer.send("POST", f"{core}/pods", _kubernetes("Pod", spec=_POD), dry_run=False)
    await writer.send("POST", f"{apps}/deployments", deployment, dry_run=False)
    scale = _kubernetes("Scale", group="autoscaling/v1", spec=None)
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}

    await writer.send("PUT", f"{apps}/deployments/odd/scale", scale)
    await writer.send("PUT", f"{apps}/deployments/odd/status", {**deployment, "status": {}})
    await writer.send("POST", f"{core}/serviceaccounts/default/token", token)
    await writer.send(
        "POST", f"{core}/pods/odd/eviction", _kubernetes("Eviction", group="policy/v1")
    )
    for path in (f"{core}/pods", f"{apps}/deployments", f"{core}/configmaps", f"{core}/secrets"):
        await writer.send("DELETE", path, {})


ODD_FIELDS: Final[tuple[Any, ...]] = (MISSING, None, {}, [None])
KINDS: Final = tuple(kind for kind in crds.KINDS if kind.kind in specs.RIGHT)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
async def test_rules_of_our_kinds_evaluate_for_odd_fields(writer: Writer, kind: Any) -> None:
    within = f"{writer.namespace}/" if kind.namespaced else ""
    path = f"/apis/{kind.group}/{kind.version}/{within}{kind.plural}"
    for field in await writer.fields(kind.crd_name):
        for value in ODD_FIELDS:
            spec = {name: each for name, each in specs.RIGHT[kind.kind].items() if name != field}
            spec |= {} if value == MISSING else {field: value}
            body = _kubernetes(kind.kind, group=f"{kind.group}/{kind.version}", spec=spec)
            assert "evaluating rule" not in await writer.attempt("POST", path, body)
