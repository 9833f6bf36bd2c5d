"""Objects in every version at a real API server, with the conversion webhook behind it."""

import contextlib
import time
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest
import yaml

import crds
from tests.contract.crds.conftest import MERGE, Kubectl, Objects
from tests.fakes.conversionserver import ConversionServer
from tests.tools.administrator import Administrator, RefusedError
from tests.tools.waiting import SECONDS

SEEDS = Path(__file__).parents[2] / "testdata" / "seeds"
GROUP = "source.toolkit.fluxcd.io"
KS = "kustomize.toolkit.fluxcd.io"
CONVERTED = [kind for kind in crds.KINDS if kind.converted]

V1BETA1: dict[str, dict[str, Any]] = {
    "GitRepository": {
        "url": "https://example.com/fleet.git",
        "interval": "1.5h",
        "timeout": "1h",
        "gitImplementation": "libgit2",
        "accessFrom": {"namespaceSelectors": [{"matchLabels": {"a": "b"}}]},
        "verify": {"mode": "head", "secretRef": {"name": "keys"}},
    },
    "HelmRepository": {"url": "https://charts.example.com", "interval": "100us", "timeout": "1h"},
    "HelmChart": {
        "chart": "web",
        "version": "1.x",
        "reconcileStrategy": "Revision",
        "interval": "1.5h",
        "sourceRef": {"kind": "HelmRepository", "name": "charts"},
        "valuesFile": "values.yaml",
        "valuesFiles": ["prod.yaml"],
        "accessFrom": {"namespaceSelectors": [{}]},
    },
    "Bucket": {
        "provider": "generic",
        "bucketName": "b",
        "endpoint": "minio.example.com",
        "interval": "5m",
        "timeout": "2h",
    },
    "Kustomization": {
        "interval": "5m",
        "timeout": "90s",
        "prune": True,
        "force": True,
        "sourceRef": {"kind": "GitRepository", "name": "fleet"},
        "validation": "client",
        "patchesStrategicMerge": [{"kind": "Deployment", "metadata": {"name": "web"}}],
        "patchesJson6902": [
            {"patch": [{"op": "remove", "path": "/spec"}], "target": {"kind": "Job"}}
        ],
    },
}


@pytest.fixture(scope="module")
def server() -> Iterator[ConversionServer]:
    running = ConversionServer(crds.KINDS)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module", autouse=True)
def _armed(
    administrator: Administrator, definitions: None, server: ConversionServer
) -> Iterator[None]:
    """Have the API server ask it, and put everything back at the end."""
    del definitions
    nobody = {"strategy": "None", "webhook": None}
    for conversion in (server.conversion, nobody):
        for kind in CONVERTED:
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.crd_name}"
            administrator.send("PATCH", path, {"spec": {"conversion": conversion}}, content=MERGE)
        if conversion is not nobody:
            _settled(administrator, server)
            yield


def _settled(administrator: Administrator, server: ConversionServer) -> None:
    """Wait until the API server has taken the definitions: before that it relabels."""
    drafts = Objects(administrator, "default")
    deadline = time.monotonic() + SECONDS
    for probe in (document(kind.kind, "v1beta1", name="probe") for kind in CONVERTED):
        while not (_accepted(drafts, probe) and probe["kind"] in server.asked):
            assert time.monotonic() < deadline, f"{probe['kind']} is not converted"
            time.sleep(0.02)


def _accepted(drafts: Objects, probe: dict[str, Any]) -> bool:
    with contextlib.suppress(RefusedError):
        return bool(drafts.accepted(probe))
    return False


def resource(kind: str, version: str) -> str:
    (row,) = [each for each in crds.KINDS if each.kind == kind]
    return f"{row.plural}.{version}.{row.group}"


def document(kind: str, version: str, spec: Any = None, *, name: str = "any") -> dict[str, Any]:
    (row,) = [each for each in crds.KINDS if each.kind == kind]
    return {
        "apiVersion": f"{row.group}/{version}",
        "kind": kind,
        "metadata": {"name": name},
        "spec": V1BETA1.get(kind, {}) | (spec or {}),
    }


def has(found: dict[str, Any], fields: dict[str, Any]) -> bool:
    return {name: found.get(name) for name in fields} == fields


@pytest.fixture
def read(objects: Objects) -> Any:
    def get(kind: str, version: str, name: str = "any") -> dict[str, Any]:
        return objects.get(document(kind, version, name=name))

    return get


@pytest.fixture
def write(run: Kubectl, namespace: str) -> Any:
    def call(verb: str, documents: Any, *options: str) -> str:
        return run(verb, "-n", namespace, "-f", "-", *options, documents=documents)

    return call


@pytest.fixture
def patch(objects: Objects) -> Any:
    def call(kind: str, version: str, body: Any, *subresource: str) -> None:
        path = objects.path(document(kind, version), "any", *subresource)
        objects.administrator.send("PATCH", path, body, content=MERGE)

    return call


APPLY = pytest.mark.parametrize("options", [(), ("--server-side",)], ids=["client", "server"])


@APPLY
@pytest.mark.parametrize("kind", ["gitrepository", "ocirepository", "bucket", "helmrepository"])
def test_a_published_manifest_of_v1beta2_reads_back_as_it_was_written(
    read: Any, write: Any, kind: str, options: tuple[str, ...]
) -> None:
    (seed,) = yaml.safe_load_all((SEEDS / f"toolkit-{kind}-v1beta2.yaml").read_text())
    del seed["metadata"]["namespace"]

    write("apply", seed, *options)

    for version in ("v1beta2", "v1"):
        found = read(seed["kind"], version, seed["metadata"]["name"])
        assert found["apiVersion"] == f"{GROUP}/{version}"
        assert has(found["spec"], seed["spec"])


@APPLY
@pytest.mark.parametrize("kind", V1BETA1)
def test_a_manifest_of_v1beta1_reads_back_as_it_was_written(
    read: Any, write: Any, kind: str, options: tuple[str, ...]
) -> None:
    obj = document(kind, "v1beta1")
    write("apply", obj, *options, "--validate=strict")

    found = read(kind, "v1beta1")
    write("apply", obj, *options)
    write("diff", obj, *options)

    assert has(found["spec"], obj["spec"])
    assert not any("conversion" in name for name in found["metadata"].get("annotations", {}))
    assert read(kind, "v1beta1")["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("GitRepository", {"interval": "1.5h", "timeout": "60m", "gitImplementation": "libgit2"}),
        ("HelmRepository", {"interval": "0.1ms", "timeout": "60m"}),
        ("HelmChart", {"interval": "1.5h", "valuesFile": "values.yaml"}),
        ("Bucket", {"interval": "5m", "timeout": "120m"}),
        ("Kustomization", {"timeout": "90s", "validation": "client"}),
    ],
)
def test_what_is_stored_is_what_the_newest_version_takes(
    write: Any, read: Any, kind: str, fields: dict[str, Any]
) -> None:
    write("create", document(kind, "v1beta1"))

    newest = read(kind, "v1")
    write("replace", newest, "--validate=strict")

    assert has(newest["spec"], fields)
    assert read(kind, "v1")["metadata"]["generation"] == 1


def test_an_edit_in_an_old_version_keeps_what_only_the_newest_has(
    write: Any, read: Any, patch: Any
) -> None:
    spec = {"interval": "5m", "timeout": "60s", "provider": "azure", "sparseCheckout": ["apps"]}
    spec |= {"proxySecretRef": {"name": "p"}, "verify": {"mode": "Tag", "secretRef": {"name": "k"}}}
    write("create", document("GitRepository", "v1", spec))

    for version in ("v1beta1", "v1beta2"):
        patch("GitRepository", version, {"spec": {"suspend": version == "v1beta1"}})
        whole = read("GitRepository", version)
        whole["spec"]["ref"] = {"branch": version}
        write("replace", whole, "--validate=strict")

    found = read("GitRepository", "v1")["spec"]
    assert has(found, spec)
    assert (found["suspend"], found["ref"]) == (False, {"branch": "v1beta2"})


def test_an_edit_in_the_newest_version_is_seen_in_the_old_one(
    write: Any, read: Any, patch: Any
) -> None:
    write("apply", document("GitRepository", "v1beta1"))

    patch("GitRepository", "v1", {"spec": {"timeout": "5m", "gitImplementation": None}})

    found = read("GitRepository", "v1beta1")["spec"]
    assert (found["timeout"], found["interval"]) == ("5m", "1.5h")
    assert "gitImplementation" not in found


def test_what_a_controller_reports_is_read_in_the_words_of_the_old_version(
    write: Any, read: Any, patch: Any
) -> None:
    digest, commit = "ab" * 32, "0123456789" * 4
    artifact = {"digest": f"sha256:{digest}", "revision": f"main@sha1:{commit}", "path": "p"}
    artifact |= {"url": "http://a", "lastUpdateTime": "2026-01-01T00:00:00Z", "size": 7}
    write("create", document("GitRepository", "v1beta1"))

    patch("GitRepository", "v1", {"status": {"artifact": artifact}}, "status")
    old = read("GitRepository", "v1beta1")
    patch("GitRepository", "v1beta1", {"spec": {"suspend": True}})

    assert old["status"]["artifact"] == {
        **{key: artifact[key] for key in ("path", "url", "lastUpdateTime", "size")},
        "checksum": digest,
        "revision": f"main/{commit}",
    }
    assert read("GitRepository", "v1")["status"]["artifact"] == artifact


def test_the_artifact_of_a_chart_reads_the_same_in_every_version(
    write: Any, read: Any, patch: Any, server: ConversionServer
) -> None:
    artifact = {"digest": "sha256:" + "ab" * 32, "revision": "1.2.3", "path": "p", "url": "u"}
    artifact["lastUpdateTime"] = "2026-01-01T00:00:00Z"
    write("create", document("HelmChart", "v1beta1"))

    patch("HelmChart", "v1", {"status": {"artifact": artifact}}, "status")
    found = [read("HelmChart", version) for version in ("v1", "v1beta2", "v1beta1")]

    assert [each["status"]["artifact"] for each in found] == [artifact] * 3
    assert "HelmChart" not in server.asked


def test_metadata_is_the_same_in_every_version(
    objects: Objects, write: Any, read: Any, patch: Any
) -> None:
    # answers of the webhook lack most of it: the API server takes it from what it sent
    write("create", document("GitRepository", "v1beta1"))
    # without an owner that exists, the garbage collector deletes the object
    bucket = objects.create(document("Bucket", "v1", {"timeout": "60s"}))
    owner = {key: bucket[key] for key in ("apiVersion", "kind")}
    owner |= {key: bucket["metadata"][key] for key in ("name", "uid")}
    given = {"finalizers": ["example.com/kept"], "ownerReferences": [owner], "labels": {"a": "b"}}
    patch("GitRepository", "v1", {"metadata": given})

    old = read("GitRepository", "v1beta1")
    new = read("GitRepository", "v1")["metadata"]
    write("replace", {**old, "spec": {**old["spec"], "suspend": True}})
    written = read("GitRepository", "v1")["metadata"]

    assert old["metadata"].keys() - {"annotations"} == new.keys() - {"annotations"}
    assert has(old["metadata"], {key: new[key] for key in new.keys() - {"annotations"}})
    assert has(written, given)
    assert written["generation"] == new["generation"] + 1


def test_two_managers_apply_in_different_versions(
    refused: Kubectl, namespace: str, write: Any, read: Any
) -> None:
    def part(version: str, **spec: Any) -> Any:
        whole = document("Kustomization", version)
        return whole | {"spec": spec}

    required = {"interval": "5m", "prune": True, "sourceRef": {"kind": "Bucket", "name": "b"}}
    old = ("--server-side", "--field-manager=old")
    new = ("--server-side", "--field-manager=new")

    write("apply", part("v1beta1", **required, timeout="90s", validation="client"), *old)
    write("apply", part("v1", **required, namePrefix="a-", wait=True), *new)
    shared = read("Kustomization", "v1")
    write("apply", part("v1beta1", **required, timeout="90s"), *old)
    write("apply", part("v1", **required, namePrefix="a-"), *new)
    conflict = refused(
        *("apply", "-n", namespace, "-f", "-", *new),
        documents=part("v1", **required, timeout="1m"),
    )

    owners = {each["manager"]: each["apiVersion"] for each in shared["metadata"]["managedFields"]}
    assert owners == {"old": f"{KS}/v1beta1", "new": f"{KS}/v1"}
    assert shared["spec"]["validation"] == "client"
    found = read("Kustomization", "v1")["spec"]
    assert found.keys() & {"validation", "wait"} == set()
    assert (found["namePrefix"], found["timeout"]) == ("a-", "90s")
    assert 'conflict with "old"' in conflict
    assert ".spec.timeout" in conflict
    assert read("Kustomization", "v1beta1")["spec"]["timeout"] == "90s"


def test_a_watch_in_an_old_version_sees_writes_in_the_newest(
    run: Kubectl, namespace: str, write: Any, patch: Any
) -> None:
    write("create", document("Bucket", "v1beta1"))
    place = (f"{resource('Bucket', 'v1beta1')}/any", "-n", namespace)
    condition = "--for=jsonpath={.status.artifact.checksum}=" + "ab" * 32
    artifact = {"digest": "sha256:" + "ab" * 32, "revision": "r", "path": "p", "url": "u"}
    artifact["lastUpdateTime"] = "2026-01-01T00:00:00Z"

    with futures.ThreadPoolExecutor() as beside:
        seen = beside.submit(run, "wait", *place, condition)
        patch("Bucket", "v1", {"status": {"artifact": artifact}}, "status")

    assert "condition met" in seen.result()


def test_every_version_is_listed_and_explained(run: Kubectl, objects: Objects) -> None:
    for kind_name in V1BETA1:
        objects.create(document(kind_name, "v1beta1"))

    for kind in CONVERTED:
        for version in (kind.version, *(old.version for old in kind.older)):
            path = objects.path(document(kind.kind, version))
            listed = objects.administrator.send("GET", path)
            told = run("explain", f"{kind.plural}.spec", f"--api-version={kind.group}/{version}")

            (found,) = listed["items"]
            assert found["apiVersion"] == f"{kind.group}/{version}"
            assert f"VERSION:    {version}" in told


def test_a_list_of_hundreds_is_converted_in_one_go(objects: Objects) -> None:
    for number in range(300):
        objects.create(document("GitRepository", "v1beta1", name=f"r{number}"))

    path = objects.path(document("GitRepository", "v1beta1"))
    listed = objects.administrator.send("GET", path)

    assert [each["spec"]["timeout"] for each in listed["items"]] == ["1h"] * 300


def test_old_versions_are_as_strict_as_they_were(objects: Objects) -> None:
    bad = [
        ({"fieldOfNoVersion": 1}, 'unknown field "spec.fieldOfNoVersion"'),
        ({"gitImplementation": "svn"}, "spec.gitImplementation: Unsupported value"),
        ({"url": "ftp://example.com"}, "spec.url in body should match"),
    ]
    for spec, message in bad:
        assert message in objects.refused(document("GitRepository", "v1beta1", spec))
    chart = document("HelmChart", "v1beta1", {"interval": ".5h"})
    assert "spec.interval in body should match" in objects.refused(chart)


def test_objects_are_deleted_in_old_versions(refused: Kubectl, namespace: str, write: Any) -> None:
    obj = document("HelmChart", "v1beta1")
    write("create", obj)

    write("delete", obj)

    assert "NotFound" in refused("get", resource("HelmChart", "v1"), "any", "-n", namespace)


def test_without_the_webhook_the_newest_version_is_read_and_written(
    refused: Kubectl, objects: Objects, read: Any, server: ConversionServer, patch: Any
) -> None:
    objects.create(document("GitRepository", "v1beta1"))
    assert read("GitRepository", "v1")["metadata"]["managedFields"]
    server.stop()
    try:
        patch("GitRepository", "v1", {"spec": {"suspend": True}})
        newest = read("GitRepository", "v1")
        path = objects.path(document("GitRepository", "v1"))
        listed = objects.administrator.send("GET", path)["items"]
        told = refused("get", resource("GitRepository", "v1beta1"), "--all-namespaces")
    finally:
        server.start()

    assert newest["spec"]["suspend"] is True
    # Entries in an old version cannot be compared then. Before 1.37 the API server drops them all
    # (structured-merge-diff; docs/api-versions.md tells what that means).
    version = objects.administrator.send("GET", "/version")
    keeps = (int(version["major"]), int(version["minor"])) >= (1, 37)
    assert ("managedFields" in newest["metadata"]) is keeps
    assert [each["metadata"]["name"] for each in listed] == ["any"]
    assert "conversion webhook for source.toolkit.fluxcd.io/v1" in told
    assert read("GitRepository", "v1beta1")["spec"]["timeout"] == "1h"


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("OCIRepository", "v1beta2", {"url": "oci://example.com/r", "interval": "5m"}),
        ("Kustomization", "v1beta1", V1BETA1["Kustomization"]),
        ("HelmChart", "v1beta1", V1BETA1["HelmChart"]),
    ],
)
def test_kinds_whose_versions_read_the_same_need_no_webhook(
    objects: Objects, server: ConversionServer, kind: str, version: str, spec: dict[str, Any]
) -> None:
    written = document(kind, version, spec)
    objects.create(written)
    server.stop()
    try:
        found = objects.get(written)
    finally:
        server.start()

    assert has(found["spec"], spec)
