"""What is looked up before a write to a protected namespace is admitted, and what is told."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds.meta import VERIFIED
from tests.fakes import admission
from tests.fakes.apiserver import FakeApiServer
from tests.unit.webhooks.protected import (
    FROM_GIT,
    KINDS,
    OWNER,
    ROLLOUT,
    USER,
    chart,
    deployment,
    extras,
    kustomization,
    policy,
    release,
    source,
    space,
    thing,
)
from toolkit.errors import PenstockError, TransientError
from toolkit.objects import Json
from toolkit.policy.provenance import LABEL
from webhooks import protection, provenance
from webhooks.plugin import Answer, DeniedError


@dataclass
class World:
    """What caches hold, and what the API server answers; the same unless a test says otherwise."""

    cluster: admission.FakeCluster = field(default_factory=admission.FakeCluster)
    server: FakeApiServer = field(default_factory=FakeApiServer)
    authorize: admission.FakeAuthorizer = field(default_factory=admission.FakeAuthorizer)

    def __post_init__(self) -> None:
        self.server.kinds |= KINDS

    def stored(self, *objects: Json) -> None:
        """Put objects into the API server alone."""
        plurals = {kind: plural for (_, _, plural), kind in KINDS.items()}
        for obj in objects:
            meta = obj["metadata"]
            if obj["kind"] in plurals:
                key = (plurals[obj["kind"]], meta["namespace"], meta["name"])
                self.server.objects[key] = obj

    def put(self, *objects: Json) -> None:
        """Put objects into the API server and the caches."""
        self.stored(*objects)
        for obj in objects:
            self.cluster.put(obj)

    def run(self, body: Callable[[Any], Awaitable[Any]], *, namespaces: bool = False) -> Any:
        """Make the plugin and run the body of the test with it."""

        async def main() -> Any:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(self.server.running())
                services = admission.services(
                    cluster=self.cluster, client=client, authorize=self.authorize
                )
                row = protection.ROW if namespaces else provenance.ROW
                return await body(row.make(services))

        return asyncio.run(main())

    def admit(self, obj: Json | None = None, **more: Any) -> Answer:
        async def body(plugin: Any) -> Answer:
            return await admission.admitted(plugin, admission.request(obj, **more))

        found: Answer = self.run(body)
        return found

    def deny(self, obj: Json | None = None, **more: Any) -> DeniedError:
        async def body(plugin: Any) -> PenstockError:
            return await admission.denied(plugin, admission.request(obj, **more))

        found = self.run(body)
        assert isinstance(found, DeniedError)
        return found


@pytest.fixture
def world() -> World:
    made = World()
    made.put(space(), policy(), source(), kustomization())
    return made


def test_without_a_policy_nothing_is_asked() -> None:
    world = World()

    assert world.admit(deployment()) == Answer()
    assert world.server.requests == []


def test_a_kind_that_no_policy_is_about_passes(world: World) -> None:
    assert world.admit(thing("example.com", "Widget", "w")) == Answer()


def test_a_label_that_the_cache_lacks_is_read_again(world: World) -> None:
    world.cluster.put(space({}))

    assert "may not be created by 'alice'" in str(world.deny(deployment()))


def test_true_claims_are_admitted_without_a_request(world: World) -> None:
    assert world.admit(deployment(), user=USER, extra=extras()) == Answer()
    assert world.server.requests == []


RELEASED = {"applier": "HelmRelease/shop/web", "revision": "1.0.0"}


def test_a_release_stands_behind_the_chart_that_its_status_names(world: World) -> None:
    other = "helmrelease.shop.web"
    user = "system:serviceaccount:penstock-system:helm-applier"
    world.put(release() | {"status": {"helmChart": f"shop/{other}"}}, chart("shop-web"))
    world.put(chart(other))

    theirs, ours = (
        extras(**(RELEASED | {"source": f"HelmChart/shop/{name}"})) for name in ("shop-web", other)
    )

    assert "is not built from" in str(world.deny(deployment(), user=user, extra=theirs))
    assert world.admit(deployment(), user=user, extra=ours) == Answer()


@pytest.mark.parametrize(
    ("spec", "source", "account"),
    [
        ({"serviceAccountName": "deployer"}, ("HelmChart", "shop-web"), "shop:deployer"),
        ({}, ("HelmChart", "shop-web"), "penstock-system:helm-applier"),
        (
            {"chart": None, "chartRef": {"kind": "OCIRepository", "name": "web"}},
            ("OCIRepository", "web"),
            "penstock-system:helm-applier",
        ),
    ],
    ids=["chart", "no account", "chartRef"],
)
def test_a_release_stands_behind_what_its_chart_made(
    world: World, spec: Json, source: tuple[str, str], account: str
) -> None:
    kind, name = source
    world.put(release(**spec), chart(name, kind))
    made = extras(**(RELEASED | {"source": f"{kind}/shop/{name}"}))

    user = f"system:serviceaccount:{account}"
    assert world.admit(deployment(), user=user, extra=made) == Answer()


@pytest.mark.parametrize(
    "forged",
    [
        {"source": "HelmChart/shop/other"},
        {"revision": "2.0.0"},
        {"applier": "Kustomization/shop/web"},
        {"applier": "HelmRelease/shop/other"},
    ],
    ids=str,
)
def test_a_release_stands_behind_nothing_else(world: World, forged: dict[str, str]) -> None:
    world.put(release(serviceAccountName="deployer"), chart("shop-web"), chart("other"))
    made = extras(**(RELEASED | {"source": "HelmChart/shop/shop-web"} | forged))

    assert "its provenance is not true" in str(world.deny(deployment(), user=USER, extra=made))


def test_a_cache_that_lags_behind_the_controller_is_not_believed(world: World) -> None:
    world.stored(source("main@sha1:bbb", "sha256:2"))
    newer = extras(revision="main@sha1:bbb", digest="sha256:2")

    assert world.admit(deployment(), user=USER, extra=newer) == Answer()


def test_an_account_that_was_just_changed_counts(world: World) -> None:
    world.stored(kustomization(serviceAccountName="other"))
    other = "system:serviceaccount:shop:other"

    assert world.admit(deployment(), user=other, extra=extras()) == Answer()


def test_forged_claims_are_read_again_and_refused(world: World) -> None:
    forged = extras(revision="main@sha1:ccc")

    said = str(world.deny(deployment(), user=USER, extra=forged))

    assert "its provenance is not true: revision 'main@sha1:ccc' (sha256:1) is not what" in said
    assert world.server.count("GET", "gitrepositories") == 1


def test_forged_claims_are_refused_even_where_none_are_needed(world: World) -> None:
    asked = {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}
    forged = extras(applier="Kustomization/shop/nobody")

    world.deny(deployment(metadata=asked), old=deployment(), user=ROLLOUT, extra=forged)
    assert world.admit(deployment(metadata=asked), old=deployment(), user=ROLLOUT) == Answer()


def test_an_applier_of_another_cluster_stands_behind_nothing(world: World) -> None:
    world.put(kustomization(kubeConfig={"secretRef": {"name": "prod"}}))

    said = str(world.deny(deployment(), user=USER, extra=extras()))

    assert "applies to another cluster" in said


def rolled(world: World, steps: list[Json], asked: dict[str, tuple[str, ...]]) -> bool:
    """Tell whether claims are admitted after a source went through these states."""

    async def body(plugin: Any) -> bool:
        for step in steps:
            world.put(step)
        request = admission.request(deployment(), user=USER, extra=asked)
        try:
            await plugin.review(request)
        except DeniedError:
            return False
        return True

    found: bool = world.run(body)
    return found


def revisions() -> Iterator[Json]:
    return (source(f"main@sha1:{n:03}", f"sha256:{n}") for n in itertools.count())


def test_an_apply_that_began_a_moment_ago_goes_on(world: World) -> None:
    assert rolled(world, [source("main@sha1:bbb", "sha256:2")], extras())


def test_what_was_replaced_often_is_forgotten(world: World) -> None:
    assert rolled(world, [*itertools.islice(revisions(), 8)], extras())
    assert not rolled(world, [source(), *itertools.islice(revisions(), 9)], extras())


def test_what_was_withdrawn_counts_no_more(world: World) -> None:
    withdrawn = source()
    withdrawn["status"] = {}

    assert not rolled(world, [withdrawn], extras())
    assert not rolled(world, [source(), withdrawn, source("main@sha1:bbb", "sha256:2")], extras())


def test_what_is_no_longer_signed_counts_no_more_as_signed(world: World) -> None:
    signed = source(**{VERIFIED: "verified by K"})
    world.put(policy(origins=[{"verifiedBy": ".+"}]), signed)
    withdrawn = source()
    withdrawn["status"] = {}

    assert rolled(world, [signed], extras(verified="verified by K"))
    assert not rolled(world, [withdrawn, source()], extras(verified="verified by K"))


def test_an_allowed_url_that_is_set_afterwards_admits_no_foreign_content(world: World) -> None:
    world.put(policy(origins=FROM_GIT))
    foreign = source(fetched="https://evil.example/fleet", suspend=True)

    world.put(foreign)
    said = str(world.deny(deployment(), user=USER, extra=extras()))

    assert "contains what was fetched from 'https://evil.example/fleet'" in said


def test_foreign_content_is_not_admitted_for_what_was_fetched_since(world: World) -> None:
    world.put(policy(origins=FROM_GIT))
    foreign = source("main@sha1:bbb", "sha256:2", fetched="https://evil.example/fleet")
    evil = extras(revision="main@sha1:bbb", digest="sha256:2")

    assert not rolled(world, [foreign, source()], evil)
    assert rolled(world, [foreign, source()], extras())


def test_a_cache_that_does_not_know_the_origin_yet_is_read_again(world: World) -> None:
    world.put(policy(origins=FROM_GIT))
    world.cluster.put(source(fetched="https://evil.example/fleet"))

    assert world.admit(deployment(), user=USER, extra=extras()) == Answer()


def child(**changes: str) -> Json:
    named = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-1",
        "uid": "u-1",
        **changes,
    }
    return thing("", "Pod", "web-1-x", metadata={"ownerReferences": [named | {"controller": True}]})


def test_a_pod_of_an_admitted_replica_set_is_created(world: World) -> None:
    world.stored(thing("apps", "ReplicaSet", "web-1", metadata={"uid": "u-1"}))

    assert world.admit(child(), user=ROLLOUT) == Answer()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "web-2"},
        {"uid": "u-2"},
        {"kind": "Widget", "apiVersion": "example.com/v1"},
        {"apiVersion": "example.com/v1"},
    ],
)
def test_a_pod_of_nothing_is_refused(world: World, changes: dict[str, str]) -> None:
    world.stored(thing("apps", "ReplicaSet", "web-1", metadata={"uid": "u-1"}))

    said = str(world.deny(child(**changes), user=ROLLOUT))

    assert "its controller " in said
    assert "does not exist" in said


def test_a_pod_of_what_nobody_guards_is_refused(world: World) -> None:
    world.stored(thing("apps", "ReplicaSet", "web-1", metadata={"uid": "u-1"}))
    world.put(policy(resources=[{"apiGroups": [""], "resources": ["pods"]}]))

    said = str(world.deny(child(), user=ROLLOUT))

    assert "its controller is a ReplicaSet, which the policy does not cover" in said


def test_an_object_of_a_collection_is_named_by_itself(world: World) -> None:
    async def body(plugin: Any) -> str:
        asked = admission.request(old=deployment())
        nameless = type(asked)(
            **{name: getattr(asked, name) for name in asked.__slots__} | {"name": ""}
        )
        return str(await admission.denied(plugin, nameless))

    assert "Deployment/shop/web may not be deleted by 'alice'" in world.run(body)


def test_the_home_of_a_pod_is_found_over_its_controllers(world: World) -> None:
    def controlled(kind: str, name: str, by: str, uid: str) -> Json:
        owner = {"apiVersion": "apps/v1", "kind": by, "name": name.rpartition("-")[0], "uid": uid}
        metadata = {"uid": f"u-{kind}", "ownerReferences": [owner | {"controller": True}]}
        return thing("apps" if kind != "Pod" else "", kind, name, metadata=metadata)

    pod = controlled("Pod", "web-1-x", "ReplicaSet", "u-ReplicaSet")
    world.stored(
        controlled("ReplicaSet", "web-1", "Deployment", "u-d"),
        deployment(metadata={"uid": "u-d", "labels": OWNER, "managedFields": APPLIED}),
    )

    said = str(world.deny({**pod, "spec": {"changed": True}}, old=pod))

    assert "it is applied by Kustomization/shop/web from GitRepository/shop/fleet" in said
    assert "(https://git.example/fleet), change it there" in said


APPLIED = [
    {
        "manager": "kustomize-controller",
        "operation": "Apply",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:kustomize.toolkit.fluxcd.io/name": {}}}},
    }
]


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [{**APPLIED[0], "manager": "cert-manager"}],
        [{**APPLIED[0], "manager": "helm-controller"}],
        [{**APPLIED[0], "fieldsV1": {"f:spec": {}}}],
    ],
    ids=["a pod of a template", "an operator", "another applier", "other fields"],
)
def test_labels_that_their_applier_has_not_set_reveal_nothing(
    world: World, fields: list[Json]
) -> None:
    """The labels of a Pod's template and of an operator's Secret are of the tenant's choice."""
    obj = deployment(metadata={"labels": OWNER, "managedFields": fields})

    said = str(world.deny({**obj, "spec": {"changed": True}}, old=obj))

    assert "may not be changed by 'alice'" in said
    assert "git.example" not in said
    assert "Kustomization/shop/web" not in said


def test_labels_of_a_new_object_reveal_nothing(world: World) -> None:
    said = str(world.deny(deployment(metadata={"labels": OWNER})))

    assert "git.example" not in said
    assert "add it to a repository" in said


def glass(until: timedelta, why: str = "incident 42") -> Json:
    text = f"{datetime.now(UTC) + until:%Y-%m-%dT%H:%M:%SZ} {why}"
    return space(glass=text)


def test_breaking_the_glass_needs_the_verb_and_leaves_a_note(world: World) -> None:
    world.stored(glass(timedelta(hours=1)))
    world.authorize.allow("alice", "bypass", "provenancepolicies", "", "production")

    answer = world.admit(deployment())

    assert answer.audit == {"break-glass": "incident 42", "policies": "production"}
    assert "break-glass is active until" in answer.warnings[0]
    world.deny(deployment(), user="bob")


@pytest.mark.parametrize("until", [timedelta(hours=-1), timedelta(hours=25)])
def test_a_glass_whose_time_is_not_now_is_whole(world: World, until: timedelta) -> None:
    world.stored(glass(until))
    world.authorize.allow("alice", "bypass", "provenancepolicies", "")

    world.deny(deployment())


def test_the_verb_alone_opens_nothing(world: World) -> None:
    world.authorize.allow("alice", "bypass", "provenancepolicies", "")

    world.deny(deployment())


def test_every_policy_that_refuses_must_be_bypassed(world: World) -> None:
    world.put(policy("second"))
    world.stored(glass(timedelta(hours=1)))
    world.authorize.allow("alice", "bypass", "provenancepolicies", "", "production")

    world.deny(deployment())


def test_whether_somebody_may_bypass_must_be_found_out(world: World) -> None:
    world.stored(glass(timedelta(hours=1)))
    world.authorize.fail(TransientError("no answer"))

    async def body(plugin: Any) -> PenstockError:
        return await admission.denied(plugin, admission.request(deployment()))

    assert isinstance(world.run(body), TransientError)


@pytest.mark.parametrize(("mode", "told"), [("Warn", 1), ("Audit", 0)])
def test_other_modes_let_it_pass(world: World, mode: str, told: int) -> None:
    world.put(policy(mode=mode))

    answer = world.admit(deployment())

    assert len(answer.warnings) == told
    assert answer.audit == {
        "violations": "only objects from a repository are admitted (ProvenancePolicy 'production')"
    }


def test_a_refusal_is_noted_with_every_policy(world: World) -> None:
    world.put(policy("watching", mode="Audit"))

    refusal = world.deny(deployment())

    assert "'watching'" not in str(refusal)
    assert "'watching'" in refusal.audit["violations"]


def test_a_dry_run_is_judged_alike(world: World) -> None:
    world.deny(deployment(), dry_run=True)


def namespaces(world: World, new: Json, old: Json, user: str = "alice") -> PenstockError | Answer:
    async def body(plugin: Any) -> PenstockError | Answer:
        return await admission.judged(plugin, admission.request(new, old=old, user=user))

    found: PenstockError | Answer = world.run(body, namespaces=True)
    return found


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (space({}), "'alice' may not take the protection from it"),
        (space({"team": "shop"}), "needs the verb 'bypass' on provenancepolicies: production"),
        (glass(timedelta(hours=1)), "'alice' may not break the glass of it"),
    ],
)
def test_protection_is_taken_only_by_who_may_bypass(world: World, new: Json, said: str) -> None:
    refusal = namespaces(world, new, space())
    world.authorize.allow("alice", "bypass", "provenancepolicies", "", "production")
    granted = namespaces(world, new, space())

    assert said in str(refusal)
    assert isinstance(granted, Answer)
    assert granted.audit["policies"] == "production"


def test_a_label_that_a_policy_selects_by_is_part_of_the_protection(world: World) -> None:
    chosen = {"matchLabels": {"tier": "gold"}}
    world.cluster.put(policy("gold", namespaceSelector=chosen))
    both = {LABEL: "yes", "tier": "gold"}

    refusal = namespaces(world, space({LABEL: "yes", "tier": "tin"}), space(both))
    harmless = namespaces(world, space({LABEL: "no", "tier": "gold"}), space(both))

    assert str(refusal).endswith("provenancepolicies: gold")
    assert harmless == Answer()


@pytest.mark.parametrize("text", ["true", "2999-01-01T00:00:00Z for ever"])
def test_an_annotation_that_breaks_nothing_is_refused(world: World, text: str) -> None:
    world.authorize.allow("alice", "bypass", "provenancepolicies", "")

    refusal = namespaces(world, space(glass=text), space())

    assert isinstance(refusal, DeniedError)
    assert refusal.code == 422


def test_a_namespace_that_no_policy_holds_in_is_left_alone(world: World) -> None:
    assert namespaces(world, space({}), space({"a": "b"})) == Answer()


def test_a_policy_that_cannot_be_read_admits_nothing() -> None:
    world = World()
    world.put(space(), policy(origins=[{"source": 1}]), source(), kustomization())

    by_hand = world.deny(deployment())
    applied = world.deny(deployment(), user=USER, extra=extras())

    for denied in (by_hand, applied):
        assert "the policy cannot be read, so nothing satisfies it" in str(denied)
        assert "(ProvenancePolicy 'production')" in str(denied)
    world.put(policy())
    assert world.admit(deployment(), user=USER, extra=extras()) == Answer()
