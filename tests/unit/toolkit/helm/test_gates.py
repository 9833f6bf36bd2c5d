"""What a worker that has been taken over may ask as the storage: its own release's records."""

import json
from typing import Any

import pytest

from toolkit.helm import gates

SECRETS = "/api/v1/namespaces/apps/secrets"
RECORD = "sh.helm.release.v1.web.v1"
ALLOWS = gates.records(namespace="apps", release="web")


def record(**changes: Any) -> bytes:
    labels = {"owner": "helm", "name": "web", "status": "deployed", "version": "1"}
    secret = {
        "type": "helm.sh/release.v1",
        "metadata": {"name": RECORD, "labels": labels},
    }
    return json.dumps(secret | changes).encode()


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", f"{SECRETS}?labelSelector=name%3Dweb%2Cowner%3Dhelm", b""),
        ("GET", f"{SECRETS}/{RECORD}", b""),
        ("POST", SECRETS, record()),
        ("PUT", f"{SECRETS}/{RECORD}", record()),
        ("DELETE", f"{SECRETS}/{RECORD}", b"{}"),
    ],
)
def test_own_records_pass(method: str, target: str, body: bytes) -> None:
    assert ALLOWS(method, target, body)


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", SECRETS, b""),
        ("GET", f"{SECRETS}?labelSelector=owner%3Dhelm", b""),
        ("GET", f"{SECRETS}?labelSelector=owner%3Dhelm%2Cname%3Dother", b""),
        ("GET", f"{SECRETS}?labelSelector=owner%3Dhelm%2Cname%3Dweb&watch=true", b""),
        ("GET", f"{SECRETS}/password", b""),
        ("GET", f"{SECRETS}/sh.helm.release.v1.other.v1", b""),
        ("GET", f"{SECRETS}/{RECORD}/../password", b""),
        ("GET", f"{SECRETS}/{RECORD}%2F..%2Fpassword", b""),
        ("GET", f"/api/v1/namespaces/kube-system/secrets/{RECORD}", b""),
        ("POST", SECRETS, record(type="kubernetes.io/service-account-token")),
        ("POST", SECRETS, record(metadata={"name": "password"})),
        ("POST", SECRETS, record(metadata=[RECORD])),
        ("POST", SECRETS, record(metadata={"name": [RECORD]})),
        ("POST", SECRETS, record(metadata={"name": RECORD})),
        ("PUT", f"{SECRETS}/{RECORD}", b"not json"),
        ("PATCH", f"{SECRETS}/{RECORD}", record()),
        ("DELETE", f"{SECRETS}?labelSelector=name%3Dweb%2Cowner%3Dhelm", b""),
        ("GET", "/api/v1/nodes", b""),
    ],
)
def test_nothing_else_passes(method: str, target: str, body: bytes) -> None:
    assert not ALLOWS(method, target, body)
