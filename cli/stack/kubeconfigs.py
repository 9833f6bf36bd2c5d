"""A kubeconfig for each process: the cluster of the given one, a token file for a user.

The cluster stanza is copied as it is (server, CA, proxy, TLS server name). Credentials are not: the
result gives only the permissions of the service account.
"""

from pathlib import Path
from typing import Any, Final

import yaml

from cli import errors

_FILES: Final = ("certificate-authority",)


def for_token_file(kubeconfig: Path, token_file: Path, *, namespace: str, context: str = "") -> str:
    """Return a kubeconfig for the cluster of ``kubeconfig``'s context that reads ``token_file``.

    Raises:
        UsageError: the file has no such context or cluster.
    """
    document = _load(kubeconfig)
    wanted = context or document.get("current-context") or ""
    chosen = _named(document, "contexts", "context", wanted, kubeconfig)
    cluster = _named(document, "clusters", "cluster", chosen.get("cluster", ""), kubeconfig)
    for key in _FILES:
        if key in cluster:
            cluster[key] = str((kubeconfig.parent / cluster[key]).resolve())
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "penstock",
            "clusters": [{"name": "penstock", "cluster": cluster}],
            "users": [{"name": "penstock", "user": {"tokenFile": str(token_file)}}],
            "contexts": [
                {
                    "name": "penstock",
                    "context": {"cluster": "penstock", "user": "penstock", "namespace": namespace},
                }
            ],
        },
        sort_keys=False,
    )


def _load(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as exc:
        raise errors.UsageError(f"kubeconfig {path} cannot be read: {exc}") from exc
    if not isinstance(document, dict):
        raise errors.UsageError(f"kubeconfig {path} holds no configuration")
    return document


def _named(document: dict[str, Any], table: str, key: str, name: str, path: Path) -> dict[str, Any]:
    for row in document.get(table) or ():
        if row.get("name") == name:
            return dict(row.get(key) or {})
    raise errors.UsageError(
        f"kubeconfig {path} has no {key} {name!r}; choose one with `kubectl config use-context`"
    )
