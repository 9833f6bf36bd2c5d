"""Rights that have just been given: an API server takes notice of them a moment later."""

from collections.abc import Iterator

from tests.tools.waiting import until
from toolkit.kube.client import Client
from toolkit.objects import Json, dig

_GROUP = "authorization.k8s.io/v1"


async def noticed(admin: Client, user: str, *rules: Json, namespace: str = "") -> None:
    """Wait until a user may do what these rules of RBAC say, in a namespace or everywhere."""

    async def allowed() -> bool:
        return all([await _may(admin, user, each) for each in _asked(rules, namespace)])

    await until(allowed)


async def _may(admin: Client, user: str, attributes: Json) -> bool:
    spec = {"user": user, "resourceAttributes": attributes}
    body: Json = {"apiVersion": _GROUP, "kind": "SubjectAccessReview", "spec": spec}
    review = await admin.request("POST", f"/apis/{_GROUP}/subjectaccessreviews", body=body)
    return bool(dig(review, "status", "allowed"))


def _asked(rules: tuple[Json, ...], namespace: str) -> Iterator[Json]:
    """Yield one question for each resource: a rule is noticed as a whole."""
    for rule in rules:
        for path in rule["resources"]:
            resource, _, subresource = path.partition("/")
            yield {
                "namespace": namespace,
                "group": rule["apiGroups"][0],
                "resource": resource,
                "subresource": subresource,
                "verb": rule["verbs"][0],
                "name": next(iter(rule.get("resourceNames", ())), ""),
            }
