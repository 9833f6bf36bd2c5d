"""Sources are refused at admission as they are in a reconcile; their status is not forged."""

import asyncio
import threading
from typing import Any, ClassVar

import pytest

from tests.fakes import admission
from tests.fakes.admission import FakeAuthorizer
from toolkit.errors import PenstockError
from toolkit.objects import Json
from webhooks import sourcepolicy
from webhooks.plugin import Answer, DeniedError

SYSTEM = admission.NAMESPACE
CONTROLLER = f"system:serviceaccount:{SYSTEM}:source-controller"
ALLOWED: Json = {"kind": "GitRepository", "urls": ["https://github.com/acme/**"]}
GOOD = "https://github.com/acme/app"
BAD = "https://gitlab.com/evil/app"


def policy(*entries: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "policy.penstock.dev/v1alpha1",
        "kind": "SourcePolicy",
        "metadata": {"name": "tenants"},
        "spec": {"sources": list(entries) or [ALLOWED], **spec},
    }


def source(
    url: str = GOOD,
    *,
    kind: str = "GitRepository",
    where: str = "team",
    status: Json | None = None,
    **spec: Any,
) -> Json:
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": kind,
        "metadata": {"name": "app", "namespace": where},
        "spec": {"interval": "1m", "url": url, **spec},
        **({"status": status} if status else {}),
    }


def judged(
    new: Json,
    old: Json | None = None,
    *,
    policies: tuple[Json, ...] = (policy(),),
    may: FakeAuthorizer | None = None,
    **asked: Any,
) -> Answer | PenstockError:
    """Return the answer, or how it is denied."""

    async def main() -> Answer | PenstockError:
        names = ("team", SYSTEM)
        namespaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {}}}
            for name in names
        ]
        services = admission.services([*policies, *namespaces], authorize=may or FakeAuthorizer())
        request = admission.request(new, old=old, **asked)
        return await admission.judged(sourcepolicy.make(services), request)

    return asyncio.run(main())


def test_allowed_source_is_admitted() -> None:
    assert judged(source()) == Answer()


class Watched(dict[str, Any]):
    """An object that tells in which threads its spec was read."""

    readers: ClassVar[set[int]] = set()

    def get(self, key: str, default: Any = None) -> Any:
        if key == "spec":
            self.readers.add(threading.get_ident())
        return super().get(key, default)


@pytest.mark.parametrize("old", [None, source(GOOD + "/old")])
def test_sources_are_compared_with_policies_beside_the_loop(old: Json | None) -> None:
    Watched.readers.clear()

    assert judged(Watched(source()), old) == Answer()
    assert Watched.readers
    assert threading.get_ident() not in Watched.readers


def test_other_source_is_refused_with_field_and_policy() -> None:
    denial = judged(source(BAD))

    assert isinstance(denial, DeniedError)
    assert denial.code == 403
    assert [cause.field for cause in denial.causes] == ["spec.url"]
    assert "SourcePolicy 'tenants'" in str(denial)


def test_warning_policy_warns_and_auditing_policy_notes() -> None:
    warned = judged(source(BAD), policies=(policy(mode="Warn"),))
    noted = judged(source(BAD), policies=(policy(mode="Audit"),))

    assert isinstance(warned, Answer)
    assert isinstance(noted, Answer)
    assert len(warned.warnings) == 1
    assert noted.warnings == ()
    assert "spec.url" in noted.audit["violations"]


def test_install_namespace_is_left_alone_by_policies_without_selector() -> None:
    assert judged(source(BAD, where=SYSTEM)) == Answer()


def test_weakening_is_refused_and_what_was_wrong_before_can_be_tidied() -> None:
    assert judged(source(BAD, suspend=True), source(BAD)) == Answer()
    assert judged(source(GOOD), source(BAD)) == Answer()
    assert isinstance(judged(source(BAD), source(GOOD)), DeniedError)
    signed = ALLOWED | {"verify": {"git": {}}}
    verify = {"mode": "HEAD", "secretRef": {"name": "keys"}}
    rules = (policy(signed),)
    removed = judged(source(), source(verify=verify), policies=rules)
    assert isinstance(removed, DeniedError)
    assert removed.causes[0].field == "spec.verify"


ARTIFACT = {"artifact": {"url": "https://evil.example/x", "digest": "sha256:1"}}


@pytest.mark.parametrize("policies", [(policy(),), (policy(mode="Warn"),), ()])
@pytest.mark.parametrize(
    ("user", "verbs", "forged"),
    [
        ("alice", (), True),
        ("system:serviceaccount:team:source-controller", (), True),
        (CONTROLLER, (), False),
        ("alice", ("update",), True),
        ("alice", ("attest",), False),
    ],
)
def test_artifact_of_a_source_is_told_by_the_controller_alone(
    user: str, verbs: tuple[str, ...], policies: tuple[Json, ...], *, forged: bool
) -> None:
    may = FakeAuthorizer()
    for verb in verbs:
        may.allow("alice", verb, "gitrepositories", "team")

    answer = judged(
        *(source(status=ARTIFACT), source()),
        subresource="status",
        resource="gitrepositories",
        user=user,
        may=may,
        policies=policies,
    )

    assert isinstance(answer, DeniedError) is forged


def test_status_without_another_artifact_is_nobodys_business() -> None:
    told = {**ARTIFACT, "conditions": [{"type": "Ready", "status": "True"}]}

    assert judged(source(status=told), source(status=ARTIFACT), subresource="status") == Answer()
    assert judged(source(), source(status=ARTIFACT), subresource="status") == Answer()


@pytest.mark.parametrize("policies", [(policy(mode="Warn"),), ()])
def test_external_artifact_is_written_by_anybody_where_nothing_is_enforced(
    policies: tuple[Json, ...],
) -> None:
    made = source(kind="ExternalArtifact", status=ARTIFACT)
    before = source(kind="ExternalArtifact")

    assert judged(made, before, subresource="status", policies=policies) == Answer()


def test_external_artifact_needs_its_kind_allowed() -> None:
    made = source(kind="ExternalArtifact", status=ARTIFACT)
    before = source(kind="ExternalArtifact")
    allowing = (policy(ALLOWED, {"kind": "ExternalArtifact"}),)

    assert isinstance(judged(made, before, subresource="status"), DeniedError)
    assert judged(made, before, subresource="status", policies=allowing) == Answer()


def test_a_policy_that_cannot_be_read_allows_no_source() -> None:
    later = policy({"kind": "Later"})

    denied = judged(source(), policies=(policy(), later))

    assert isinstance(denied, DeniedError)
    assert "the policy cannot be read, so nothing satisfies it: spec.sources[0].kind" in str(denied)
    assert "(SourcePolicy 'tenants')" in str(denied)
    assert judged(source(where=SYSTEM), policies=(later,)) == Answer()
    assert isinstance(judged(source(BAD), source(), policies=(later,)), DeniedError)
    assert judged(source(suspend=True), source(), policies=(later,)) == Answer()
