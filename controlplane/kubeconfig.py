"""Kubeconfig files with one cluster, one user and one context, all named alike.

Certificates and keys are inside the file, so that it can be copied to where it is needed.
Format: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
"""

import base64
from pathlib import Path

import yaml

from controlplane import certificates
from controlplane.certificates import KeyPair


def write(  # noqa: PLR0913 - the three ways to authenticate exclude each other
    path: Path,
    *,
    context: str,
    server: str,
    ca: bytes,
    client: KeyPair | None = None,
    token: str = "",
    token_file: Path | None = None,
) -> Path:
    """Write a kubeconfig that authenticates by certificate, token or token file; return its path.

    A token file is read again by every client each minute, so it may be rotated.
    """
    user: dict[str, str] = {}
    if client is not None:
        user["client-certificate-data"] = _base64(client.certificate)
        user["client-key-data"] = _base64(client.key)
    if token:
        user["token"] = token
    if token_file is not None:
        user["tokenFile"] = str(token_file.absolute())
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": context,
                "cluster": {"server": server, "certificate-authority-data": _base64(ca)},
            }
        ],
        "users": [{"name": context, "user": user}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }
    path.unlink(missing_ok=True)
    certificates.write_private(path, yaml.safe_dump(document, sort_keys=False).encode())
    return path


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
