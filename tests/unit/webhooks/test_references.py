"""References are refused at admission as they are in a reconcile, and removals never."""

import asyncio
from typing import Any

import pytest

from tests.fakes import admission
from tests.fakes.apiserver import FakeApiServer
from toolkit.errors import PenstockError
from toolkit.kube.options import Options
from toolkit.objects import Json
from webhooks import references
from webhooks.plugin import DeniedError

THEIRS = {"kind": "GitRepository", "name": "fleet", "namespace": "platform"}
OURS = {"kind": "GitRepository", "name": "fleet"}
WAITING = {"name": "infra", "namespace": "platform"}
READING = {**WAITING, "readyExpr": "dep.status.ready"}
LOCKED = Options(no_cross_namespace_refs=True)
WARNING = Options(cross_namespace_refs="warn")


def kustomization(source: Json = THEIRS, *, metadata: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": "team", **(metadata or {})},
        "spec": {"interval": "1m", "prune": True, "sourceRef": source, **spec},
    }


def grant(namespace: str = "platform", **metadata: Any) -> Json:
    of = {"group": "kustomize.toolkit.fluxcd.io", "kind": "Kustomization", "namespace": "team"}
    to = {"group": "source.toolkit.fluxcd.io", "kind": "GitRepository"}
    return {
        "apiVersion": "policy.penstock.dev/v1alpha1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "guests", "namespace": namespace, **metadata},
        "spec": {"from": [of], "to": [to]},
    }


def judged(
    new: Json,
    old: Json | None = None,
    *,
    cached: Json | None = None,
    stored: Json | None = None,
    options: Options | None = None,
    server: FakeApiServer | None = None,
) -> PenstockError | None:
    """Return how a write is denied, with grants in the cache and on the server; None if it is not.

    The server has what the cache has, unless told otherwise.
    """
    server = server or FakeApiServer()
    server.kinds["policy.penstock.dev", "v1alpha1", "referencegrants"] = "ReferenceGrant"
    on_server = stored or cached
    if on_server:
        metadata = on_server["metadata"]
        server.put("referencegrants", "guests", metadata["namespace"], **on_server)

    async def main() -> PenstockError | None:
        async with server.running() as client:
            objects = [cached] if cached else []
            services = admission.services(objects, client=client, options=options)
            asked = admission.request(new, old=old)
            return await admission.refusal(references.make(services), asked)

    return asyncio.run(main())


def test_reference_without_a_grant_is_denied_and_its_field_named() -> None:
    denial = judged(kustomization())

    assert isinstance(denial, DeniedError)
    assert (denial.code, denial.reason) == (403, "Forbidden")
    assert str(denial) == (
        "spec.sourceRef: can't access 'GitRepository/platform/fleet', no ReferenceGrant in "
        "namespace 'platform' lets a Kustomization of namespace 'team' refer to it; to allow it, "
        'apply: {apiVersion: "policy.penstock.dev/v1alpha1", kind: "ReferenceGrant", metadata: '
        '{name: "team-60bd88ee", namespace: "platform"}, spec: {from: [{group: '
        '"kustomize.toolkit.fluxcd.io", kind: "Kustomization", namespace: "team"}], to: [{group: '
        '"source.toolkit.fluxcd.io", kind: "GitRepository", name: "fleet"}]}} '
        "(see docs/tenancy.md#references-to-other-namespaces)"
    )
    assert [cause.field for cause in denial.causes] == ["spec.sourceRef"]


def test_every_denied_reference_is_named() -> None:
    needs = [READING, {"name": "base"}]

    denial = judged(kustomization(dependsOn=needs))

    assert isinstance(denial, DeniedError)
    assert [cause.field for cause in denial.causes] == ["spec.sourceRef", "spec.dependsOn[0]"]


def test_waiting_for_another_namespace_is_admitted_unless_an_expression_reads_there() -> None:
    assert judged(kustomization(OURS, dependsOn=[WAITING])) is None
    assert judged(kustomization(OURS, dependsOn=[READING])) is not None
    assert judged(kustomization(OURS, dependsOn=[WAITING]), options=LOCKED) is not None


def test_an_expression_that_is_added_to_a_dependency_is_a_new_reference() -> None:
    old = kustomization(OURS, dependsOn=[WAITING])

    denial = judged(kustomization(OURS, dependsOn=[READING]), old)

    assert isinstance(denial, DeniedError)
    assert [cause.field for cause in denial.causes] == ["spec.dependsOn[0]"]


def test_a_write_that_leaves_an_expression_as_it_was_is_admitted() -> None:
    old = kustomization(OURS, dependsOn=[READING])

    assert judged(kustomization(OURS, dependsOn=[WAITING, READING]), old) is None


def warned(new: Json, *, cached: Json | None = None) -> tuple[str, ...]:
    server = FakeApiServer()
    server.kinds["policy.penstock.dev", "v1alpha1", "referencegrants"] = "ReferenceGrant"

    async def main() -> tuple[str, ...]:
        async with server.running() as client:
            objects = [cached] if cached else []
            services = admission.services(objects, client=client, options=WARNING)
            answer = await admission.admitted(references.make(services), admission.request(new))
            return answer.warnings

    return asyncio.run(main())


def test_a_missing_grant_is_warned_of_where_it_is_not_enforced() -> None:
    (warning,) = warned(kustomization())

    assert warning == (
        "spec.sourceRef: no ReferenceGrant in namespace 'platform' allows "
        "'GitRepository/platform/fleet'; admitted because of --cross-namespace-refs=warn, see "
        "docs/tenancy.md#references-to-other-namespaces"
    )
    assert warned(kustomization(), cached=grant()) == ()


def test_many_missing_grants_are_warned_of_in_few_lines() -> None:
    warnings = warned(kustomization(OURS, dependsOn=elsewhere(20, 20)))

    assert len(warnings) == 4
    assert warnings[-1] == "and 17 more references lack a ReferenceGrant"


def test_what_the_flag_forbids_is_denied_where_missing_grants_are_warned_of() -> None:
    both = Options(no_cross_namespace_refs=True, cross_namespace_refs="warn")

    assert judged(kustomization(), cached=grant(), options=both) is not None


@pytest.mark.parametrize("namespace", ["", "team"])
def test_own_namespace_needs_no_grant(namespace: str) -> None:
    assert judged(kustomization({**OURS, "namespace": namespace})) is None


def test_granted_reference_is_admitted() -> None:
    assert judged(kustomization(), cached=grant()) is None


def test_grant_that_the_cache_has_not_seen_yet_counts() -> None:
    assert judged(kustomization(), stored=grant()) is None


def test_grant_that_is_being_deleted_does_not_count_even_when_read_again() -> None:
    dying = grant(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])

    assert judged(kustomization(), stored=dying) is not None


def test_grant_of_another_namespace_opens_nothing() -> None:
    assert judged(kustomization(), cached=grant("team")) is not None


def test_the_flag_forbids_what_is_granted() -> None:
    denial = judged(kustomization(), cached=grant(), options=LOCKED)

    assert denial is not None
    assert "have been blocked" in str(denial)
    assert str(denial).endswith("no grant changes that (see docs/tenancy.md#lock-down)")


@pytest.mark.parametrize(
    "metadata",
    [
        {"finalizers": []},
        {"labels": {"a": "b"}},
        {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []},
    ],
)
def test_write_that_brings_no_reference_is_admitted_after_a_revocation(metadata: Json) -> None:
    old = kustomization(metadata={"finalizers": ["finalizers.fluxcd.io"]})

    assert judged(kustomization(metadata=metadata), old) is None
    assert judged(kustomization(suspend=True), old) is None


def test_change_to_another_target_is_denied() -> None:
    assert judged(kustomization(), kustomization({**THEIRS, "name": "other"})) is not None
    assert judged(kustomization(), kustomization(OURS)) is not None


def elsewhere(count: int, namespaces: int) -> list[Json]:
    """Return as many references that read in other namespaces, in turn in each."""
    names = [{"name": f"x{n}", "namespace": f"n{n % namespaces}"} for n in range(count)]
    return [{**each, "readyExpr": "dep.status.ready"} for each in names]


def test_thousands_of_references_are_denied_and_nothing_is_asked_for_them() -> None:
    server = FakeApiServer()

    denial = judged(kustomization(OURS, dependsOn=elsewhere(20_000, 20_000)), server=server)

    assert isinstance(denial, DeniedError)
    assert "refers to 20000 objects of other namespaces, more than 1000" in str(denial)
    assert server.count("GET", "referencegrants") == 0


@pytest.mark.parametrize(("namespaces", "lists"), [(2, 2), (16, 16), (900, 16)])
def test_grants_of_a_namespace_are_read_once_and_not_of_all(namespaces: int, lists: int) -> None:
    server = FakeApiServer()

    denial = judged(kustomization(OURS, dependsOn=elsewhere(900, namespaces)), server=server)

    assert isinstance(denial, DeniedError)
    assert "; and 897 more; to allow it" in str(denial)
    assert len(str(denial)) < 4096
    assert len(denial.causes) == 32
    assert server.count("GET", "referencegrants") == lists


def test_thousands_of_references_within_a_namespace_or_of_before_are_admitted() -> None:
    within = kustomization(OURS, dependsOn=[{"name": f"x{n}"} for n in range(2000)])
    old = kustomization(OURS, dependsOn=elsewhere(2000, 2000))

    assert judged(within) is None
    assert judged({**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}, old) is None


def test_deletion_is_admitted() -> None:
    async def main() -> None:
        asked = admission.request(old=kustomization())
        await admission.admitted(references.make(admission.services()), asked)

    asyncio.run(main())
