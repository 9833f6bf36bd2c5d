"""A policy on images that would hold for nothing, or for nobody, is refused when written."""

from typing import Any

import pytest

from tests.contract.crds.conftest import Objects

VERIFIER = {"name": "release", "notation": {"secretRef": {"name": "trust"}}}
IDENTITY = {"issuer": "https://issuer.example.com", "subject": "ann@example.com"}
SECRET = {"secretRef": {"name": "keys"}}


def policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy.penstock.dev/v1alpha1",
        "kind": "ImageVerificationPolicy",
        "metadata": {"name": "bad"},
        "spec": {"images": ["ghcr.io/acme/**"], "verifiers": [VERIFIER], **spec},
    }


def cosign(**more: Any) -> dict[str, Any]:
    return policy(verifiers=[{"name": "release", "cosign": more}])


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (policy(images=[]), "spec.images in body should have at least 1 items"),
        *(
            (policy(images=[text]), "spec.images[0] in body should match")
            for text in ("nginx", "acme/app", "oci://ghcr.io/acme", "ghcr.io/Acme/app", "*")
        ),
        (policy(exclude=["acme/app"]), "spec.exclude[0] in body should match"),
        *(
            (policy(images=[text]), "images of Docker Hub have a namespace")
            for text in ("docker.io/nginx", "docker.io/*", "index.docker.io/nginx")
        ),
        (policy(verifiers=[]), "spec.verifiers in body should have at least 1 items"),
        (policy(verifiers=[{"name": "a"}]), "one of cosign and notation must be set"),
        (policy(verifiers=[VERIFIER, VERIFIER]), "spec.verifiers[1]: Duplicate value"),
        (policy(required=2), "required is more than there are verifiers"),
        (policy(required=0), "should be greater than or equal to 1"),
        (policy(mode="Off"), 'spec.mode: Unsupported value: "Off"'),
        (
            policy(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
            "values",
        ),
        (cosign(), "one of secretRef and identities must be set"),
        (cosign(**SECRET, identities=[IDENTITY]), "one of secretRef and identities must be set"),
        (cosign(identities=[]), "one of secretRef and identities must be set"),
        (cosign(identities=[{"issuer": "x"}]), "identities[0].subject: Required value"),
        (
            cosign(**SECRET, trustedRootSecretRef={"name": "root"}),
            "a trusted root vouches for identities",
        ),
    ],
    ids=lambda part: None if isinstance(part, dict) else part[:40],
)
def test_policy_that_cannot_hold_is_refused(
    drafts: Objects, document: dict[str, Any], why: str
) -> None:
    assert why in drafts.refused(document)


@pytest.mark.parametrize(
    "document",
    [
        policy(),
        policy(required=1),
        policy(mutateDigest=False, mode="Audit"),
        policy(
            images=[
                *("**", "docker.io/library/*", "docker.io/**", "*/acme/app", "*.example.com/**"),
                *("localhost/app", "registry:5000/app", "[::1]:5000/app", "10.0.0.1:5000/a"),
            ]
        ),
        cosign(**SECRET),
        cosign(identities=[IDENTITY], trustedRootSecretRef={"name": "root"}),
    ],
)
def test_rules_refuse_no_more_than_they_say(drafts: Objects, document: dict[str, Any]) -> None:
    assert document["spec"].items() <= drafts.accepted(document)["spec"].items()
