"""The rights with which Penstock acts for others: to write, to read Secrets, to become someone.

A right is an account, a verb and a resource: ``source-controller: get secrets``.
"""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from tests.docs.pages import ROOT

ROLES: Final = ("deploy/base", "deploy/components", "deploy/tenant")
_WRITES: Final = frozenset(
    {"create", "update", "patch", "delete", "deletecollection", "impersonate", "bind", "escalate"}
)
_SECRET: Final = frozenset({"secrets", "*", "pods/log"})


def rights() -> set[str]:
    """Return the rights that the shipped roles grant to Penstock's own accounts."""
    documents = list(_documents())
    rules = {
        (each["kind"], each["metadata"]["name"]): each.get("rules") or []
        for each in documents
        if each["kind"] in {"ClusterRole", "Role"}
    }
    return {
        f"{subject['name']}: {verb} {resource}"
        for each in documents
        if each["kind"] in {"ClusterRoleBinding", "RoleBinding"}
        for subject in each.get("subjects") or []
        if subject["kind"] == "ServiceAccount"
        for rule in rules.get((each["roleRef"]["kind"], each["roleRef"]["name"]), [])
        for verb in rule["verbs"]
        for resource in rule.get("resources") or []
        if verb in _WRITES or (resource in _SECRET and verb in {"get", "list", "watch"})
    }


def _documents() -> Iterator[dict[str, Any]]:
    for directory in ROLES:
        for path in sorted((ROOT / directory).rglob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text()):
                if isinstance(document, dict) and "kind" in document:
                    yield document
