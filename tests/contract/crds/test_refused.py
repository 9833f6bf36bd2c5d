"""A spec that cannot work is refused when it is written, with the field and the reason."""

import copy
from typing import Any

import pytest

import crds
from tests.contract.crds.conftest import Kubectl, Objects

SOURCE: dict[str, Any] = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "GitRepository",
    "metadata": {"name": "bad"},
    "spec": {"interval": "5m", "url": "https://example.com/r.git"},
}
APPLIER: dict[str, Any] = {
    "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
    "kind": "Kustomization",
    "metadata": {"name": "bad"},
    "spec": {
        "interval": "5m",
        "prune": True,
        "sourceRef": {"kind": "GitRepository", "name": "fleet"},
    },
}
OCI: dict[str, Any] = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "OCIRepository",
    "metadata": {"name": "bad"},
    "spec": {"interval": "5m", "url": "oci://example.com/manifests"},
}
BUCKET: dict[str, Any] = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "Bucket",
    "metadata": {"name": "bad"},
    "spec": {"interval": "5m", "endpoint": "minio.example.com", "bucketName": "fleet"},
}
HELM_REPOSITORY: dict[str, Any] = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "HelmRepository",
    "metadata": {"name": "bad"},
    "spec": {"url": "https://charts.example.com"},
}
HELM_CHART: dict[str, Any] = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "HelmChart",
    "metadata": {"name": "bad"},
    "spec": {
        "interval": "5m",
        "chart": "web",
        "sourceRef": {"kind": "HelmRepository", "name": "charts"},
    },
}
EXTERNAL: dict[str, Any] = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "ExternalArtifact",
    "metadata": {"name": "bad"},
    "spec": {},
}
GENERATOR: dict[str, Any] = {
    "apiVersion": "source.extensions.fluxcd.io/v1beta1",
    "kind": "ArtifactGenerator",
    "metadata": {"name": "bad"},
    "spec": {
        "sources": [{"alias": "git", "kind": "GitRepository", "name": "fleet"}],
        "artifacts": [{"name": "all", "copy": [{"from": "@git/**", "to": "@artifact/"}]}],
    },
}
BASES = [SOURCE, APPLIER, OCI, BUCKET, HELM_REPOSITORY, HELM_CHART, EXTERNAL, GENERATOR]
ABSENT = object()
REF = {"name": "x"}
MOUNT = {"kind": "Bucket", "name": "b", "path": "b"}

GIT_REPOSITORY_CASES: list[tuple[dict[str, Any], str]] = [
    ({"url": ABSENT}, "spec.url: Required value"),
    ({"url": "ftp://example.com/r"}, "spec.url in body should match '^(http|https|ssh)://"),
    ({"interval": ABSENT}, "spec.interval: Required value"),
    ({"interval": "often"}, "spec.interval in body should match"),
    ({"interval": "1d"}, "spec.interval in body should match"),
    ({"timeout": "1h"}, "spec.timeout in body should match"),
    ({"timeout": ""}, "spec.timeout in body should match"),
    ({"provider": "gcp"}, 'spec.provider: Unsupported value: "gcp": supported values: "aws"'),
    (
        {"serviceAccountName": "sa"},
        "spec.serviceAccountName: Forbidden: serviceAccountName can only be set when provider is",
    ),
    ({"serviceAccountName": "sa", "provider": "github"}, "spec.serviceAccountName: Forbidden"),
    ({"ref": "main"}, "spec.ref in body must be of type object"),
    ({"ref": {"branchName": "x"}}, 'unknown field "spec.ref.branchName"'),
    ({"secretRef": {}}, "spec.secretRef.name: Required value"),
    ({"proxySecretRef": {}}, "spec.proxySecretRef.name: Required value"),
    ({"verify": {"mode": "HEAD"}}, "spec.verify.secretRef: Required value"),
    ({"verify": {"mode": "Commit", "secretRef": REF}}, "spec.verify.mode: Unsupported value"),
    ({"include": [{"fromPath": "a"}]}, "spec.include[0].repository: Required value"),
    ({"sparseCheckout": "dir"}, "spec.sparseCheckout in body must be of type array"),
    ({"suspend": "yes"}, "spec.suspend in body must be of type boolean"),
]

KUSTOMIZATION_CASES: list[tuple[dict[str, Any], str]] = [
    ({"interval": ABSENT}, "spec.interval: Required value"),
    ({"interval": "-5m"}, "spec.interval in body should match"),
    ({"retryInterval": "soon"}, "spec.retryInterval in body should match"),
    ({"timeout": "5"}, "spec.timeout in body should match"),
    ({"prune": ABSENT}, "spec.prune: Required value"),
    (
        {"sourceRef": ABSENT},
        "spec.sourceRef: Required value: sourceRef is required unless sourceRefs has at least one",
    ),
    ({"sourceRef": ABSENT, "sourceRefs": []}, "spec.sourceRef: Required value"),
    ({"sourceRef": {"kind": "Bucket"}}, "spec.sourceRef.name: Required value"),
    ({"sourceRef": {"kind": "HelmRepository", "name": "x"}}, "spec.sourceRef.kind: Unsupported"),
    ({"sourceRefs": [{"kind": "Bucket", "name": "b"}]}, "spec.sourceRefs[0].path: Required value"),
    ({"sourceRefs": [MOUNT, MOUNT]}, 'spec.sourceRefs[1]: Duplicate value: {"path":"b"}'),
    ({"sourceRefs": [MOUNT | {"path": f"p{i}"} for i in range(33)]}, "must have at most 32 items"),
    *(
        ({"sourceRefs": [MOUNT | {"path": path}]}, "spec.sourceRefs[0].path")
        for path in ("", "/abs", "../up", "a/../b", "a/..", "./a", "a//b", "a/", ".git")
    ),
    ({"dependsOn": [{"namespace": "x"}]}, "spec.dependsOn[0].name: Required value"),
    ({"targetNamespace": ""}, "spec.targetNamespace in body should be at least 1 chars long"),
    ({"targetNamespace": "n" * 64}, "may not be more than 63"),
    ({"namePrefix": ""}, "spec.namePrefix in body should be at least 1 chars long"),
    ({"nameSuffix": "n" * 201}, "may not be more than 200"),
    ({"patches": [{"target": {"kind": "Pod"}}]}, "spec.patches[0].patch: Required value"),
    ({"images": [{"newTag": "v1"}]}, "spec.images[0].name: Required value"),
    ({"buildMetadata": ["allAnnotations"]}, "spec.buildMetadata[0]: Unsupported value"),
    ({"decryption": {"provider": "vault"}}, "spec.decryption.provider: Unsupported value"),
    ({"decryption": {"secretRef": REF}}, "spec.decryption.provider: Required value"),
    (
        {"kubeConfig": {}},
        "spec.kubeConfig: Invalid value: exactly one of secretRef or configMapRef",
    ),
    (
        {"kubeConfig": {"secretRef": REF, "configMapRef": REF}},
        "spec.kubeConfig: Invalid value: exactly one of secretRef or configMapRef must be set",
    ),
    ({"kubeConfig": {"secretRef": {"key": "k"}}}, "spec.kubeConfig.secretRef.name: Required value"),
    (
        {"postBuild": {"substituteFrom": [{"kind": "Pod", "name": "x"}]}},
        "spec.postBuild.substituteFrom[0].kind: Unsupported value",
    ),
    (
        {"postBuild": {"substituteFrom": [{"kind": "Secret", "name": ""}]}},
        "spec.postBuild.substituteFrom[0].name in body should be at least 1 chars long",
    ),
    (
        {"postBuild": {"substituteFrom": [{"kind": "Secret", "name": "n" * 254}]}},
        "may not be more than 253",
    ),
    (
        {"postBuild": {"substituteStrategy": "Never"}},
        "spec.postBuild.substituteStrategy: Unsupported value",
    ),
    ({"postBuild": {"substitute": {"a": 1}}}, "spec.postBuild.substitute.a in body must be of"),
    ({"healthChecks": [{"name": "x"}]}, "spec.healthChecks[0].kind: Required value"),
    ({"healthChecks": [{"kind": "Job"}]}, "spec.healthChecks[0].name: Required value"),
    ({"healthCheckExprs": [{"apiVersion": "v1"}]}, "spec.healthCheckExprs[0].current: Required"),
    ({"healthCheckExprs": [{"current": "true"}]}, "spec.healthCheckExprs[0].apiVersion: Required"),
    ({"deletionPolicy": "Keep"}, "spec.deletionPolicy: Unsupported value"),
    ({"ignore": [{"target": {"kind": "Pod"}}]}, "spec.ignore[0].paths: Required value"),
    ({"validation": "strict"}, "spec.validation: Unsupported value"),
    (
        {"patchesJson6902": [{"patch": [{"op": "set", "path": "/a"}], "target": {}}]},
        "spec.patchesJson6902[0].patch[0].op: Unsupported value",
    ),
    ({"patchesJson6902": [{"patch": []}]}, "spec.patchesJson6902[0].target: Required value"),
    ({"fieldOfNoVersion": 1}, 'unknown field "spec.fieldOfNoVersion"'),
]


OCI_CASES: list[tuple[dict[str, Any], str]] = [
    ({"url": ABSENT}, "spec.url: Required value"),
    ({"url": "https://example.com/r"}, "spec.url in body should match '^oci://"),
    ({"interval": ABSENT}, "spec.interval: Required value"),
    ({"timeout": "1h"}, "spec.timeout in body should match"),
    ({"provider": "github"}, "spec.provider: Unsupported value"),
    ({"layerSelector": {"operation": "move"}}, "spec.layerSelector.operation: Unsupported value"),
    ({"ref": {"branch": "x"}}, 'unknown field "spec.ref.branch"'),
    ({"verify": {"provider": "gpg"}}, "spec.verify.provider: Unsupported value"),
    (
        {"verify": {"matchOIDCIdentity": [{"issuer": "x"}]}},
        "spec.verify.matchOIDCIdentity[0].subject: Required value",
    ),
    (
        {"verify": {"matchOIDCIdentity": [{"subject": "x"}]}},
        "spec.verify.matchOIDCIdentity[0].issuer: Required value",
    ),
    (
        {"verify": {"trustedRootSecretRef": {}}},
        "spec.verify.trustedRootSecretRef.name: Required value",
    ),
]

STS = {"provider": "ldap", "endpoint": "https://sts.example.com"}
BUCKET_CASES: list[tuple[dict[str, Any], str]] = [
    ({"bucketName": ABSENT}, "spec.bucketName: Required value"),
    ({"endpoint": ABSENT}, "spec.endpoint: Required value"),
    ({"interval": ABSENT}, "spec.interval: Required value"),
    ({"provider": "minio"}, "spec.provider: Unsupported value"),
    ({"sts": {"provider": "ldap"}}, "spec.sts.endpoint: Required value"),
    ({"sts": {"endpoint": "https://x"}}, "spec.sts.provider: Required value"),
    ({"sts": STS | {"endpoint": "ftp://x"}}, "spec.sts.endpoint in body should match"),
    (
        {"provider": "gcp", "sts": STS},
        "STS configuration is only supported for the 'aws' and 'generic' Bucket providers",
    ),
    (
        {"provider": "aws", "sts": STS},
        "'aws' is the only supported STS provider for the 'aws' Bucket provider",
    ),
    (
        {"sts": STS | {"provider": "aws"}},
        "'ldap' is the only supported STS provider for the 'generic' Bucket provider",
    ),
    (
        {"provider": "aws", "sts": STS | {"provider": "aws", "secretRef": REF}},
        "spec.sts.secretRef is not required for the 'aws' STS provider",
    ),
    (
        {"provider": "aws", "sts": STS | {"provider": "aws", "certSecretRef": REF}},
        "spec.sts.certSecretRef is not required for the 'aws' STS provider",
    ),
    (
        {"serviceAccountName": "sa"},
        "ServiceAccountName is not supported for the 'generic' Bucket provider",
    ),
    (
        {"provider": "aws", "serviceAccountName": "sa", "secretRef": REF},
        "cannot set both .spec.secretRef and .spec.serviceAccountName",
    ),
]

HELM_REPOSITORY_CASES: list[tuple[dict[str, Any], str]] = [
    ({"url": ABSENT}, "spec.url: Required value"),
    ({"url": "git://x"}, "spec.url in body should match '^(http|https|oci)://"),
    ({"type": "s3"}, "spec.type: Unsupported value"),
    ({"provider": "github"}, "spec.provider: Unsupported value"),
    ({"interval": "1d"}, "spec.interval in body should match"),
    ({"timeout": "1h"}, "spec.timeout in body should match"),
    ({"accessFrom": {}}, "spec.accessFrom.namespaceSelectors: Required value"),
]

HELM_CHART_CASES: list[tuple[dict[str, Any], str]] = [
    ({"chart": ABSENT}, "spec.chart: Required value"),
    ({"interval": ABSENT}, "spec.interval: Required value"),
    ({"sourceRef": ABSENT}, "spec.sourceRef: Required value"),
    ({"sourceRef": {"kind": "OCIRepository", "name": "x"}}, "spec.sourceRef.kind: Unsupported"),
    ({"sourceRef": {"kind": "Bucket"}}, "spec.sourceRef.name: Required value"),
    (
        {"sourceRef": {"kind": "Bucket", "name": "x", "namespace": "y"}},
        'unknown field "spec.sourceRef.namespace"',
    ),
    ({"reconcileStrategy": "Always"}, "spec.reconcileStrategy: Unsupported value"),
    (
        {"verify": {}, "sourceRef": {"kind": "Bucket", "name": "x"}},
        "spec.verify is only supported when spec.sourceRef.kind is 'HelmRepository'",
    ),
    ({"valuesFile": ["values.yaml"]}, "spec.valuesFile in body must be of type string"),
]

EXTERNAL_CASES: list[tuple[dict[str, Any], str]] = [
    ({"sourceRef": {"kind": "Maker"}}, "spec.sourceRef.name: Required value"),
    ({"sourceRef": {"name": "x"}}, "spec.sourceRef.kind: Required value"),
    ({"interval": "5m"}, 'unknown field "spec.interval"'),
]

GIT_SOURCE = {"alias": "git", "kind": "GitRepository", "name": "fleet"}
COPY = {"from": "@git/**", "to": "@artifact/"}


def _copying(**changes: Any) -> dict[str, Any]:
    return {"artifacts": [{"name": "all", "copy": [COPY | changes]}]}


GENERATOR_CASES: list[tuple[dict[str, Any], str]] = [
    ({"sources": ABSENT}, "spec.sources: Required value"),
    ({"sources": []}, "spec.sources in body should have at least 1 items"),
    ({"sources": [GIT_SOURCE] * 1001}, "must have at most 1000 items"),
    ({"sources": [GIT_SOURCE | {"alias": "Git"}]}, "spec.sources[0].alias in body should match"),
    ({"sources": [GIT_SOURCE | {"alias": "a" * 64}]}, "may not be more than 63"),
    (
        {"sources": [GIT_SOURCE | {"kind": "HelmRepository"}]},
        "spec.sources[0].kind: Unsupported value",
    ),
    ({"sources": [GIT_SOURCE | {"namespace": ""}]}, "spec.sources[0].namespace in body should"),
    ({"artifacts": []}, "spec.artifacts in body should have at least 1 items"),
    ({"artifacts": [{"name": "all", "copy": []}]}, "spec.artifacts[0].copy in body should have"),
    (
        {"artifacts": [{"name": "all-{app}", "copy": [COPY]}]},
        "artifact names must be lower case letters, digits, dashes and dots",
    ),
    ({"artifacts": [{"name": "n" * 254, "copy": [COPY]}]}, "may not be more than 253"),
    (
        {"artifacts": [{"name": "all", "copy": [COPY], "revision": "git"}]},
        "spec.artifacts[0].revision in body should match",
    ),
    (
        {"artifacts": [{"name": "all", "copy": [COPY], "originRevision": "@a/b"}]},
        "spec.artifacts[0].originRevision in body should match",
    ),
    (_copying(**{"from": "git/**"}), "spec.artifacts[0].copy[0].from in body should match"),
    (_copying(to="@git/x"), "spec.artifacts[0].copy[0].to in body should match"),
    (_copying(to="@artifact/" + "x" * 1020), "may not be more than 1024"),
    (_copying(exclude=["*.md"] * 101), "must have at most 100 items"),
    (_copying(strategy="Symlink"), "spec.artifacts[0].copy[0].strategy: Unsupported value"),
    ({"pathPattern": "apps/{app}"}, "spec.pathPattern in body should match"),
    ({"suspend": True}, 'unknown field "spec.suspend"'),
    ({"interval": "5m"}, 'unknown field "spec.interval"'),
]


def document(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(base)
    changed["spec"] = {k: v for k, v in (base["spec"] | changes).items() if v is not ABSENT}
    return changed


def name_of(value: Any) -> str:
    return " ".join(value) if isinstance(value, dict) else ""


CASES = [
    (base, *case)
    for base, cases in (
        (SOURCE, GIT_REPOSITORY_CASES),
        (APPLIER, KUSTOMIZATION_CASES),
        (OCI, OCI_CASES),
        (BUCKET, BUCKET_CASES),
        (HELM_REPOSITORY, HELM_REPOSITORY_CASES),
        (HELM_CHART, HELM_CHART_CASES),
        (EXTERNAL, EXTERNAL_CASES),
        (GENERATOR, GENERATOR_CASES),
    )
    for case in cases
]


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    CASES,
    ids=[f"{base['kind']}-{name_of(changes)}-{message}" for base, changes, message in CASES],
)
def test_a_bad_spec_is_refused_with_the_field_and_the_reason(
    drafts: Objects, base: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    assert message in drafts.refused(document(base, changes))


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        (SOURCE, {"interval": "often"}, 'The GitRepository "bad" is invalid: spec.interval: '),
        (APPLIER, {"kubeConfig": {}}, 'The Kustomization "bad" is invalid: spec.kubeConfig: '),
        (BUCKET, {"fieldOfNoVersion": 1}, 'unknown field "spec.fieldOfNoVersion"'),
    ],
    ids=["schema", "rule", "field"],
)
def test_kubectl_shows_the_field_and_the_reason(
    refused: Kubectl, base: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    shown = refused("create", "--dry-run=server", "-f", "-", documents=document(base, changes))

    assert message in shown


@pytest.mark.parametrize("base", BASES, ids=lambda base: base["kind"])
def test_the_documents_that_the_cases_start_from_are_accepted(
    drafts: Objects, base: dict[str, Any]
) -> None:
    assert base["spec"].items() <= drafts.accepted(base)["spec"].items()


@pytest.mark.parametrize(
    "base", [base for base in BASES if base is not EXTERNAL], ids=lambda base: base["kind"]
)
def test_an_object_without_spec_is_accepted_as_by_flux(
    drafts: Objects, base: dict[str, Any]
) -> None:
    empty = {key: value for key, value in base.items() if key != "spec"}

    assert "spec" not in drafts.accepted(empty)


def test_a_policy_without_spec_is_refused(drafts: Objects) -> None:
    grant = {"apiVersion": "policy.penstock.dev/v1alpha1", "kind": "ReferenceGrant"}
    empty = grant | {"metadata": {"name": "bad"}}

    assert "spec: Required value" in drafts.refused(empty)


def signed_elsewhere(version: str) -> dict[str, Any]:
    """Return a HelmChart that demands a signature of what is in a Bucket."""
    base = HELM_CHART | {"apiVersion": f"source.toolkit.fluxcd.io/{version}"}
    return document(base, {"verify": {}, "sourceRef": {"kind": "Bucket", "name": "x"}})


def test_an_old_version_is_checked_as_it_was(drafts: Objects) -> None:
    assert drafts.accepted(signed_elsewhere("v1beta2"))["spec"]["verify"] == {"provider": "cosign"}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_field_is_checked_where_it_came_with_its_rule(drafts: Objects, version: str) -> None:
    assert "spec.verify is only supported when" in drafts.refused(signed_elsewhere(version))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "Maybe"}, "status.conditions[0].status: Unsupported value"),
        ({"reason": "not camel"}, "conditions[0].reason in body should match"),
        ({"observedGeneration": -1}, "status.conditions[0].observedGeneration"),
        ({"message": "m" * 32769}, "may not be more than 32768"),
    ],
)
def test_a_malformed_condition_is_refused(
    objects: Objects, change: dict[str, Any], message: str
) -> None:
    objects.create(SOURCE)
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Succeeded",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    objects.patch_status(SOURCE, {"conditions": [condition]})

    assert message in objects.refused_status(SOURCE, {"conditions": [condition | change]})


OLD = [
    pytest.param(base, old.version, id=f"{base['kind']}-{old.version}")
    for base in BASES
    for kind in crds.KINDS
    if kind.kind == base["kind"]
    for old in kind.older
]


@pytest.mark.parametrize(("base", "version"), OLD)
def test_an_old_version_refuses_what_no_version_has(
    drafts: Objects, base: dict[str, Any], version: str
) -> None:
    old = base | {"apiVersion": base["apiVersion"].replace("v1", version)}
    spec = base["spec"] | {"fieldOfNoVersion": 1}

    assert drafts.accepted(old)["apiVersion"] == old["apiVersion"]
    assert 'unknown field "spec.fieldOfNoVersion"' in drafts.refused(old | {"spec": spec})


@pytest.mark.parametrize(
    "base", [SOURCE, OCI, BUCKET, HELM_REPOSITORY, HELM_CHART], ids=lambda base: base["kind"]
)
def test_what_is_written_in_an_old_version_is_kept_without_a_gate(
    objects: Objects, base: dict[str, Any]
) -> None:
    kept = {"accessFrom": {"namespaceSelectors": [{"matchLabels": {"a": "b"}}]}}
    spec = base["spec"] | (kept if base["kind"] != "OCIRepository" else {})
    old = base | {"apiVersion": "source.toolkit.fluxcd.io/v1beta2", "spec": spec}

    objects.create(old)
    read = objects.get(old)

    assert read["apiVersion"] == "source.toolkit.fluxcd.io/v1beta2"
    assert spec.items() <= read["spec"].items()


ACCEPTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (OCI, {"verify": {"matchOIDCIdentity": [{"issuer": "x", "subject": "z"}]}}),
    (OCI, {"ref": {"semver": "1.x", "semverFilter": ".*-rc"}, "serviceAccountName": "sa"}),
    (BUCKET, {"sts": STS | {"secretRef": REF, "certSecretRef": REF}}),
    (BUCKET, {"provider": "aws", "sts": STS | {"provider": "aws"}, "serviceAccountName": "sa"}),
    (BUCKET, {"provider": "gcp", "serviceAccountName": "sa"}),
    (HELM_REPOSITORY, {"type": "oci", "url": "oci://example.com/charts"}),
    (HELM_CHART, {"verify": {"provider": "notation", "secretRef": REF}}),
    (HELM_CHART, {"sourceRef": {"kind": "GitRepository", "name": "x"}}),
    (
        GENERATOR,
        {
            "pathPattern": "@git/apps/{app}",
            "artifacts": [{"name": "app-{app}", "copy": [COPY | {"from": "@git/apps/{app}/**"}]}],
        },
    ),
    (GENERATOR, {"artifacts": [{"name": "all.apps.v1", "copy": [COPY]}]}),
    (GENERATOR, {"pathPattern": "@git/"}),
    (GENERATOR, {"pathPattern": "@git/{dir}/**"}),
    (GENERATOR, {"artifacts": [{"name": f"a{i}", "copy": [COPY]} for i in range(1000)]}),
]


@pytest.mark.parametrize(("base", "changes"), ACCEPTED, ids=range(len(ACCEPTED)))
def test_a_rule_refuses_no_more_than_it_says(
    drafts: Objects, base: dict[str, Any], changes: dict[str, Any]
) -> None:
    accepted = drafts.accepted(document(base, changes))

    assert accepted["spec"].keys() >= changes.keys()
