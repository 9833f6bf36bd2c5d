"""A spec that cannot work is refused when it is written, with the field and the reason."""

import copy
import json
from typing import Any

import pytest

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


def document(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(base)
    changed["spec"] = {k: v for k, v in (base["spec"] | changes).items() if v is not ABSENT}
    return changed


def name_of(value: Any) -> str:
    return " ".join(value) if isinstance(value, dict) else ""


CASES = [(SOURCE, *case) for case in GIT_REPOSITORY_CASES] + [
    (APPLIER, *case) for case in KUSTOMIZATION_CASES
]


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    CASES,
    ids=[f"{base['kind']}-{name_of(changes)}-{message}" for base, changes, message in CASES],
)
def test_a_bad_spec_is_refused_with_the_field_and_the_reason(
    run: Any, base: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    refused = run(
        *("create", "--dry-run=server", "--validate=strict", "-f", "-"),
        documents=document(base, changes),
    )

    assert refused.returncode != 0
    assert message in refused.stderr


@pytest.mark.parametrize("base", [SOURCE, APPLIER], ids=lambda base: base["kind"])
def test_the_documents_that_the_cases_start_from_are_accepted(
    run: Any, base: dict[str, Any]
) -> None:
    accepted = run("create", "--dry-run=server", "-f", "-", documents=base)

    assert accepted.returncode == 0, accepted.stderr


@pytest.mark.parametrize("base", [SOURCE, APPLIER], ids=lambda base: base["kind"])
def test_an_object_without_spec_is_refused(run: Any, base: dict[str, Any]) -> None:
    empty = {key: value for key, value in base.items() if key != "spec"}

    refused = run("create", "--dry-run=server", "-f", "-", documents=empty)

    assert "spec: Required value" in refused.stderr


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
    run: Any, namespace: str, change: dict[str, Any], message: str
) -> None:
    run("create", "-n", namespace, "-f", "-", documents=SOURCE)
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Succeeded",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = json.dumps({"status": {"conditions": [condition | change]}})

    refused = run(
        *("patch", "gitrepo/bad", "-n", namespace),
        *("--subresource=status", "--type=merge", "-p", patch),
    )

    assert refused.returncode != 0
    assert message in refused.stderr


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
@pytest.mark.parametrize("base", [SOURCE, APPLIER], ids=lambda base: base["kind"])
def test_a_version_that_would_lose_fields_is_not_served(
    run: Any, base: dict[str, Any], version: str
) -> None:
    old = base | {"apiVersion": base["apiVersion"].replace("v1", version)}

    refused = run("create", "--dry-run=server", "-f", "-", documents=old)

    assert f'no matches for kind "{base["kind"]}" in version' in refused.stderr
