"""Who may do what: tenants' accounts, locked-down flags, and what the API server learns of a write.

``locked`` is a world of its own, on a control plane that keeps an audit log: no references to other
namespaces, the account ``tenant`` where none is named, dependencies polled every ten minutes only.
"""

import json
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from controlplane import plane as planes
from tests.e2e.conftest import (
    CONFIG_MAP,
    EVENT,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    SECRET,
    SERVICE_ACCOUNT,
    Space,
    build_world,
    condition,
    config_map,
    deployment,
)
from tests.tools.waiting import until
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
PROVENANCE = "provenance.penstock.dev"
LOCKED = (
    "--no-cross-namespace-refs",
    "--default-service-account=tenant",
    "--requeue-dependency=10m",
)
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}


@dataclass(kw_only=True)
class Locked(Space):
    """A namespace of the locked world."""

    audit: Path = Path()

    def requests(self, account: str = "kustomize-controller") -> list[Json]:
        """Return what one of our accounts has asked for in this namespace, watches left out.

        The last line may be half written.
        """
        user = f"system:serviceaccount:penstock-system:{account}"
        lines = self.audit.read_text().splitlines(keepends=True)
        entries = (json.loads(line) for line in lines if line.endswith("\n"))
        return [
            entry
            for entry in entries
            if entry["user"]["username"] == user
            and dig(entry, "objectRef", "namespace") == self.namespace
            and entry["verb"] != "watch"
        ]

    async def noticed(self, name: str = "app") -> None:
        """Wait until the event of what was applied is there, and in the log with all before it.

        The log is written after the answer, so a request of ours that comes later ends the wait.
        """
        await self.told("created", name=name)
        about = "involvedObject.kind=Kustomization"
        found = await self.world.api.list(EVENT, self.namespace, field_selector=about)

        def logged() -> bool:
            written = [r for r in self.requests() if dig(r, "objectRef", "resource") == "events"]
            return len(written) >= len(found)

        await until(logged)
        marker = f"marker-{secrets.token_hex(4)}"
        await self.world.api.list(EVENT, marker)
        await until(lambda: marker in self.audit.read_text())


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def locked_world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Locked]:
    directory = tmp_path_factory.mktemp("locked")
    policy, log = directory / "policy.yaml", directory / "audit.log"
    policy.write_text(yaml.safe_dump(AUDIT))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with planes.start("pytest-locked", alternatives=8, flags={"kube-apiserver": flags}) as plane:
        commands = {"source": LOCKED[:1], "kustomize": LOCKED}
        async with build_world(plane, directory, flags=commands) as world:
            yield Locked(world=world, namespace="", audit=log)


@pytest_asyncio.fixture(loop_scope="session")
async def locked(locked_world: Locked) -> Locked:
    """Give the test its own namespace in the locked world."""
    space = Locked(
        world=locked_world.world,
        namespace=f"test-{secrets.token_hex(4)}",
        audit=locked_world.audit,
    )
    await space.world.api.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space.namespace}}
    )
    return space


async def give(space: Space, account: str, *rules: Json) -> None:
    """Make a service account that may do this in its namespace."""
    metadata = {"name": account, "namespace": space.namespace}
    subject = {"kind": "ServiceAccount", **metadata}
    ref = {"apiGroup": RBAC, "kind": "Role", "name": account}
    await space.world.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": list(rules),
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": ref,
            "subjects": [subject],
        },
    )


async def start(space: Space, files: Mapping[str, str], **spec: Any) -> str:
    """Commit the files and ask for them to be applied."""
    repository = space.repository()
    commit = repository.commit(files)
    await space.world.apply(space.source(repository))
    await space.ready(GIT_REPOSITORY, revision=commit)
    await space.world.apply(space.kustomization(**spec))
    return commit


def secret(name: str) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})


async def test_tenant_cannot_touch_what_its_account_may_not(space: Space) -> None:
    await give(space, "tenant", CONFIG_MAPS)
    files = {"a.yaml": config_map("a"), "s.yaml": secret("s")}
    commit = await start(space, files, serviceAccountName="tenant", retryInterval="500ms")
    obj = await space.refused(saying="forbidden")
    before = await space.world.exists(CONFIG_MAP, space.namespace, "a")
    await give(space, "tenant", CONFIG_MAPS, CONFIG_MAPS | {"resources": ["secrets"]})
    await space.ready(revision=commit)

    message = condition(obj, "Ready")["message"]
    assert f"Secret/{space.namespace}/s dry-run failed (Forbidden)" in message
    assert f'User "system:serviceaccount:{space.namespace}:tenant" cannot patch' in message
    assert 'resource "secrets"' in message
    assert f'in the namespace "{space.namespace}"' in message
    assert not before


async def test_tenant_cannot_leave_its_namespace_nor_bind_more_than_it_has(space: Space) -> None:
    await give(
        space,
        "tenant",
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "create", "patch"]},
    )
    here = space.namespace
    elsewhere = yaml.safe_load(config_map("elsewhere"))
    elsewhere["metadata"]["namespace"] = "kube-system"
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "more", "namespace": space.namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": space.namespace}],
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}}
    repository = space.repository()
    repository.commit({"a.yaml": yaml.safe_dump_all([elsewhere, binding, namespace])})
    app = space.kustomization(serviceAccountName="tenant")
    del app["spec"]["targetNamespace"]

    await space.world.apply(space.source(repository), app)
    obj = await space.refused(saying="forbidden")

    message = condition(obj, "Ready")["message"]
    for what in ("ConfigMap/kube-system/elsewhere", "Namespace/theirs", f"RoleBinding/{here}/more"):
        assert f"{what} dry-run failed (Forbidden)" in message


async def test_objects_stay_when_the_account_to_delete_them_is_gone(space: Space) -> None:
    await give(space, "tenant", CONFIG_MAPS)
    await start(space, {"a.yaml": config_map("a")}, serviceAccountName="tenant")
    await space.ready()
    await space.world.api.delete(SERVICE_ACCOUNT, "tenant", space.namespace)

    await space.world.api.delete(KUSTOMIZATION, "app", space.namespace)
    await space.world.gone(KUSTOMIZATION, space.namespace, "app")

    assert await space.world.exists(CONFIG_MAP, space.namespace, "a")
    event = await space.told("the applied objects stay")
    assert "tenant" in event["message"]


async def test_tenant_prunes_with_its_own_rights(space: Space) -> None:
    may = {**CONFIG_MAPS, "verbs": ["get", "create", "patch"]}
    await give(space, "tenant", may)
    await start(
        space,
        {"a.yaml": config_map("a"), "b.yaml": config_map("b")},
        serviceAccountName="tenant",
        retryInterval="500ms",
    )
    await space.ready()

    commit = space.repositories[0].commit({"b.yaml": None})
    await space.request(GIT_REPOSITORY)
    obj = await space.refused(saying="cannot delete")
    await give(space, "tenant", CONFIG_MAPS)
    await space.ready(revision=commit)

    assert condition(obj, "Ready")["reason"] == "AccessDenied"
    assert f"ConfigMap/{space.namespace}/b delete failed" in condition(obj, "Ready")["message"]
    assert len(obj["status"]["inventory"]["entries"]) == 2
    await space.world.gone(CONFIG_MAP, space.namespace, "b")


async def test_default_account_applies_where_none_is_named(locked: Locked) -> None:
    await give(locked, "tenant", CONFIG_MAPS)
    await give(locked, "other", CONFIG_MAPS, CONFIG_MAPS | {"resources": ["secrets"]})
    files = {"a.yaml": config_map("a"), "s.yaml": secret("s")}

    commit = await start(locked, files)
    obj = await locked.refused(saying="forbidden")
    await locked.world.api.patch(
        KUSTOMIZATION,
        "app",
        locked.namespace,
        {"spec": {"serviceAccountName": "other"}},
        strategy="merge",
    )
    await locked.ready(revision=commit)

    assert f"system:serviceaccount:{locked.namespace}:tenant" in condition(obj, "Ready")["message"]
    assert await locked.world.exists(SECRET, locked.namespace, "s")


async def test_other_namespaces_are_out_of_bounds(locked: Locked) -> None:
    await give(locked, "tenant", CONFIG_MAPS)
    elsewhere = f"elsewhere-{locked.namespace}"
    await locked.world.api.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}}
    )
    # what is granted gets through admission, which has not the flag here, and no further
    source = {"group": GIT_REPOSITORY.group, "kind": "GitRepository"}
    applier = {"group": KUSTOMIZATION.group, "kind": "Kustomization", "namespace": "*"}
    await locked.world.apply(
        {
            "apiVersion": "policy.penstock.dev/v1alpha1",
            "kind": "ReferenceGrant",
            "metadata": {"name": "all", "namespace": elsewhere},
            "spec": {"from": [applier], "to": [source]},
        }
    )
    ref = {"kind": "GitRepository", "name": "secret-source", "namespace": elsewhere}

    await start(locked, {"a.yaml": config_map("a")}, sourceRef=ref)
    obj = await locked.refused(saying="cross-namespace references have been blocked")

    assert condition(obj, "Ready")["reason"] == "AccessDenied"
    assert condition(obj, "Stalled")["status"] == "True"
    assert f"{elsewhere}/" in condition(obj, "Ready")["message"]
    assert not await locked.world.exists(CONFIG_MAP, locked.namespace, "a")


async def test_dependents_wake_when_their_dependency_is_ready(locked: Locked) -> None:
    await give(locked, "tenant", CONFIG_MAPS)
    files = {f"{name}/a.yaml": config_map(name) for name in ("one", "two", "three")}
    order = {"three": [{"name": "two"}], "two": [{"name": "one"}], "one": []}
    repository = locked.repository()
    first = repository.commit(files)
    await locked.world.apply(
        locked.source(repository),
        *(
            locked.kustomization(name, path=f"./{name}", dependsOn=needs, retryInterval="10m")
            for name, needs in order.items()
        ),
    )
    await locked.ready(name="three", revision=first)

    second = repository.commit({"three/b.yaml": config_map("more")})
    await locked.request(GIT_REPOSITORY)

    await locked.ready(name="three", revision=second)


async def test_writes_say_from_which_revision_they_come(locked: Locked) -> None:
    await give(locked, "tenant", CONFIG_MAPS)
    commit = await start(locked, {"a.yaml": config_map("a")})
    await locked.ready(revision=commit)
    source = await locked.get(GIT_REPOSITORY, "app")

    writes = [e for e in locked.requests() if dig(e, "objectRef", "resource") == "configmaps"]
    assert {e["impersonatedUser"]["username"] for e in writes} == {
        f"system:serviceaccount:{locked.namespace}:tenant"
    }
    extras = [e["impersonatedUser"]["extra"] for e in writes]
    assert len(extras) == 2  # dry-run and write
    assert all(extra == extras[0] for extra in extras)
    assert extras[0] == {
        f"{PROVENANCE}/applier": [f"Kustomization/{locked.namespace}/app"],
        f"{PROVENANCE}/source": [f"GitRepository/{locked.namespace}/app"],
        f"{PROVENANCE}/revision": [f"main@sha1:{commit}"],
        f"{PROVENANCE}/digest": [source["status"]["artifact"]["digest"]],
    }


async def test_admission_can_tell_our_writes_from_others(locked: Locked) -> None:
    await give(locked, "tenant", CONFIG_MAPS)
    applier = f"'Kustomization/{locked.namespace}/app'"
    extra = "request.userInfo.extra"
    ours = f"{extra}[?'{PROVENANCE}/applier'].orValue([]) == [{applier}]"
    name = f"only-{locked.namespace}"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": locked.namespace}}
    await locked.world.apply(
        {
            "apiVersion": f"{ADMISSION}/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
                "validations": [{"expression": ours, "reason": "Forbidden"}],
            },
        },
        {
            "apiVersion": f"{ADMISSION}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    )
    await forbidden(locked)

    await start(locked, {"a.yaml": config_map("a")}, retryInterval="500ms")

    await locked.ready()


async def forbidden(space: Space) -> None:
    """Return once the policy refuses an administrator."""
    metadata = {"generateName": "by-hand-", "namespace": space.namespace}
    by_hand = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    async def refused() -> bool:
        try:
            await space.world.api.create(by_hand)
        except ForbiddenError:
            return True
        return False

    await until(refused)


async def test_first_apply_costs_thirteen_requests(locked: Locked) -> None:
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    await give(locked, "tenant", everything)
    repository = locked.repository()
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    repository.commit(
        {
            "web.yaml": deployment("web"),
            "service.yaml": yaml.safe_dump(service),
            "settings.yaml": config_map("settings"),
            "account.yaml": secret("s"),
        }
    )
    await locked.world.apply(locked.source(repository))
    await locked.ready(GIT_REPOSITORY)
    # the first one of a process also learns what the server serves
    await locked.world.apply(locked.kustomization("warm", namePrefix="warm-", wait=True))
    await locked.ready(name="warm")
    await locked.noticed(name="warm")
    before = len(locked.requests())

    await locked.world.apply(locked.kustomization(wait=True))
    await locked.ready()
    await locked.noticed()

    requests = locked.requests()[before:]
    # of these, one is an event
    assert len(requests) == 13, [summary(entry) for entry in requests]
    as_itself = [entry for entry in requests if "impersonatedUser" not in entry]
    assert {entry["objectRef"]["resource"] for entry in as_itself} == {"kustomizations", "events"}


def summary(entry: Json) -> str:
    path, _, query = entry["requestURI"].partition("?")
    return f"{entry['verb']} {path.rpartition('/namespaces/')[2]} {query}"
