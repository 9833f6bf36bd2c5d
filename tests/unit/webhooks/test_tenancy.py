"""Requesters lend what they hold; labels that policies go by stay as they are."""

import asyncio
from typing import Any

import pytest

from tests.fakes import admission
from tests.fakes.accounts import FakeAccounts
from tests.fakes.admission import FakeAuthorizer
from toolkit.errors import PenstockError, TransientError
from toolkit.kube.options import Options
from toolkit.objects import Json
from webhooks import tenancy
from webhooks.plugin import DeniedError

REQUIRED = "policy.penstock.dev/require-service-account"
SYSTEM = admission.NAMESPACE


def namespace(name: str = "team", **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def kustomization(*, metadata: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": "team", **(metadata or {})},
        "spec": {"interval": "1m", "sourceRef": {"kind": "GitRepository", "name": "a"}, **spec},
    }


def judged(
    new: Json,
    old: Json | None = None,
    *,
    may: FakeAuthorizer | None = None,
    user: str = "alice",
    labels: dict[str, str] | None = None,
    options: Options | None = None,
    config_maps: dict[str, dict[str, str]] | None = None,
    repositories: dict[str, Json] | None = None,
    unreadable: bool = False,
) -> PenstockError | None:
    """Return how a write is denied; None if it is admitted."""
    server = FakeAccounts()
    for name, spec in (repositories or {}).items():
        server.repository("team", name, spec)
    for name, data in (config_maps or {}).items():
        server.config_map("team", name, **data)
    server.unreadable = unreadable

    async def main() -> PenstockError | None:
        async with server.running() as client:
            services = admission.services(
                [namespace(**(labels or {}))],
                authorize=may or FakeAuthorizer(),
                options=options,
                client=client,
            )
            asked = admission.request(new, old=old, user=user)
            return await admission.refusal(tenancy.make(services), asked)

    return asyncio.run(main())


def allowed(verb: str, resource: str, where: str, name: str) -> FakeAuthorizer:
    may = FakeAuthorizer()
    may.allow("alice", verb, resource, where, name)
    return may


@pytest.mark.parametrize("verb", ["impersonate", "use"])
def test_account_that_the_requester_holds_may_be_named(verb: str) -> None:
    obj = kustomization(serviceAccountName="robot")

    assert judged(obj, may=allowed(verb, "serviceaccounts", "team", "robot")) is None


@pytest.mark.parametrize(
    "may",
    [
        FakeAuthorizer(),
        allowed("get", "serviceaccounts", "team", "robot"),
        allowed("use", "serviceaccounts", "team", "other"),
        allowed("use", "serviceaccounts", "other", "robot"),
        allowed("use", "secrets", "team", "robot"),
    ],
)
def test_other_account_is_refused_with_field_and_remedy(may: FakeAuthorizer) -> None:
    denial = judged(kustomization(serviceAccountName="robot"), may=may)

    assert isinstance(denial, DeniedError)
    assert denial.code == 403
    assert [cause.field for cause in denial.causes] == ["spec.serviceAccountName"]
    assert "user 'alice' may not use" in str(denial)
    assert "'impersonate' or 'use' on serviceaccounts 'team/robot'" in str(denial)


def test_tenant_cannot_borrow_the_administrator_by_naming_nobody() -> None:
    denial = judged(kustomization(), may=allowed("use", "serviceaccounts", "team", ""))

    assert denial is not None
    assert f"would act as '{SYSTEM}/kustomize-applier'" in str(denial)


def test_administrator_may_name_nobody() -> None:
    may = allowed("impersonate", "serviceaccounts", SYSTEM, "kustomize-applier")

    assert judged(kustomization(), may=may) is None


def test_default_account_of_the_flag_is_asked_for() -> None:
    locked = Options(default_service_account="default")
    may = allowed("use", "serviceaccounts", "team", "default")

    assert judged(kustomization(), options=locked) is not None
    assert judged(kustomization(), options=locked, may=may) is None


def test_account_lends_itself() -> None:
    obj = kustomization(serviceAccountName="robot")

    assert judged(obj, user="system:serviceaccount:team:robot") is None
    assert judged(obj, user="system:serviceaccount:other:robot") is not None
    assert judged(obj, user="robot") is not None


@pytest.mark.parametrize(
    ("spec", "may"),
    [
        ({"kubeConfig": {"secretRef": {"name": "k"}}}, ("get", "secrets", "k")),
        ({"kubeConfig": {"configMapRef": {"name": "c"}}}, ("use", "serviceaccounts", "")),
    ],
)
def test_another_cluster_is_lent_likewise(spec: Json, may: tuple[str, str, str]) -> None:
    verb, resource, name = may

    assert judged(kustomization(**spec)) is not None
    assert judged(kustomization(**spec), may=allowed(verb, resource, "team", name)) is None


ACCOUNTS = ("use", "serviceaccounts", "team", "")
FAR = kustomization(kubeConfig={"configMapRef": {"name": "far"}})
CLOUD = {"provider": "aws", "cluster": "arn:aws:eks:eu-west-1:111122223333:cluster/far"}


@pytest.mark.parametrize("data", [CLOUD, {"provider": "generic", "address": "https://far"}, {}])
def test_nobody_enters_another_cluster_as_the_controller(data: dict[str, str]) -> None:
    denial = judged(FAR, may=allowed(*ACCOUNTS), config_maps={"far": data})

    assert isinstance(denial, DeniedError)
    assert [cause.field for cause in denial.causes] == ["spec.kubeConfig.configMapRef"]
    assert "ConfigMap far: serviceAccountName is missing" in str(denial)
    assert "name a ServiceAccount of this namespace there" in str(denial)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ({**CLOUD, "serviceAccountName": "robot"}, Options()),
        (CLOUD, Options(default_kubeconfig_service_account="default")),
        (CLOUD, Options(shared_kubeconfig_identity=True)),
    ],
)
def test_another_cluster_is_entered_as_an_account_or_as_the_operator_says(
    data: dict[str, str], options: Options
) -> None:
    found = judged(FAR, may=allowed(*ACCOUNTS), config_maps={"far": data}, options=options)

    assert found is None


def test_config_map_that_is_not_there_yet_is_left_to_the_reconciler() -> None:
    assert judged(FAR, may=allowed(*ACCOUNTS)) is None


def test_config_map_that_cannot_be_read_admits_nobody() -> None:
    denial = judged(FAR, may=allowed(*ACCOUNTS), config_maps={"far": CLOUD}, unreadable=True)

    assert isinstance(denial, TransientError)
    assert str(denial) == "fake Forbidden"


def test_who_may_not_lend_accounts_learns_nothing_of_the_config_map() -> None:
    assert str(judged(FAR, config_maps={"far": CLOUD})) == str(judged(FAR))


def test_one_account_is_not_enough_for_a_config_map_that_may_name_any() -> None:
    obj = kustomization(kubeConfig={"configMapRef": {"name": "c"}})

    assert judged(obj, may=allowed("use", "serviceaccounts", "team", "robot")) is not None


@pytest.mark.parametrize("verb", ["get", "use"])
def test_keys_are_lent_likewise(verb: str) -> None:
    decryption = {"provider": "sops", "secretRef": {"name": "keys"}}
    obj = kustomization(serviceAccountName="robot", decryption=decryption)
    may = allowed("use", "serviceaccounts", "team", "robot")

    assert judged(obj, may=may) is not None
    may.allow("alice", verb, "secrets", "team", "keys")
    assert judged(obj, may=may) is None


def substituted(count: int, names: int) -> Json:
    entries = [{"kind": "Secret", "name": f"s{number % names}"} for number in range(count)]
    return kustomization(serviceAccountName="robot", postBuild={"substituteFrom": entries})


def test_few_questions_are_asked_about_thousands_of_secrets() -> None:
    def questions(obj: Json, *held: str) -> tuple[PenstockError | None, int]:
        may = allowed("use", "serviceaccounts", "team", "robot")
        for name in held:
            may.allow("alice", "get", "secrets", "team", name)
        return judged(obj, may=may), len([q for q in may.questions if q[2] == "secrets"])

    assert questions(substituted(5000, 3), "s0", "s1", "s2") == (None, 3)
    assert questions(substituted(5000, 5000), "") == (None, 1)
    denial, asked = questions(substituted(5000, 5000), *(f"s{n}" for n in range(5000)))
    assert asked == 2
    assert "spec.postBuild.substituteFrom needs secrets all of 'team'" in str(denial)


def test_who_may_only_decrypt_cannot_have_a_token_sent_by_a_kustomization() -> None:
    decryption = {"provider": "sops", "secretRef": {"name": "keys"}}
    obj = kustomization(serviceAccountName="robot", decryption=decryption)
    may = allowed("use", "serviceaccounts", "team", "robot")
    may.allow("alice", "decrypt", "secrets", "team", "keys")

    assert "'get' or 'use' on secrets 'team/keys'" in str(judged(obj, may=may))


def test_credentials_of_others_are_not_sent_to_a_server_of_ones_own() -> None:
    def repository(**spec: Any) -> Json:
        return {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": "app", "namespace": "team"},
            "spec": {"interval": "1m", "secretRef": {"name": "deploy"}, **spec},
        }

    theirs = repository(url="https://git.example/app")
    moved, suspended = repository(url="https://evil.example/app"), repository(suspend=True)

    assert "secrets 'team/deploy'" in str(judged(moved, theirs))
    assert judged(moved, theirs, may=allowed("get", "secrets", "team", "deploy")) is None
    assert judged(suspended | {"spec": theirs["spec"] | {"suspend": True}}, theirs) is None


def automation(**spec: Any) -> Json:
    return {
        "apiVersion": "image.toolkit.fluxcd.io/v1",
        "kind": "ImageUpdateAutomation",
        "metadata": {"name": "pushes", "namespace": "team"},
        "spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet"}, **spec},
    }


FLEET = {"fleet": {"secretRef": {"name": "deploy"}, "proxySecretRef": {"name": "proxy"}}}


def test_commits_are_not_pushed_with_credentials_of_others() -> None:
    may = allowed("get", "secrets", "team", "deploy")

    assert judged(automation(), repositories=FLEET) is not None
    assert judged(automation(), repositories=FLEET, may=may) is not None
    may.allow("alice", "use", "secrets", "team", "proxy")
    assert judged(automation(), repositories=FLEET, may=may) is None
    assert judged(automation(), repositories={"fleet": {}}) is None


def test_credentials_that_may_come_later_are_those_of_the_namespace() -> None:
    assert judged(automation()) is not None
    assert judged(automation(), may=allowed("get", "secrets", "team", "")) is None


def test_a_refused_automation_tells_nothing_about_its_repository() -> None:
    told = {
        str(judged(automation(), repositories=given))
        for given in (FLEET, {}, {"fleet": {"serviceAccountName": "cloud"}})
    }

    (message,) = told
    assert message.startswith("spec.sourceRef needs the credentials of GitRepository 'fleet'")
    assert "deploy" not in message


def test_a_grant_decides_about_repositories_of_other_namespaces() -> None:
    far = {"sourceRef": {"kind": "GitRepository", "name": "fleet", "namespace": "platform"}}

    assert judged(automation(**far)) is None


def test_the_pace_of_an_automation_is_free() -> None:
    assert judged(automation(suspend=True), automation(), repositories=FLEET) is None
    assert judged(automation(update={"path": "."}), automation(), repositories=FLEET) is not None


def test_keys_of_signers_are_not_looked_for_where_the_source_is() -> None:
    source = {"kind": "HelmRepository", "name": "shared", "namespace": "platform"}
    obj: Json = {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {
            "serviceAccountName": "robot",
            "chart": {"spec": {"sourceRef": source, "verify": {"secretRef": {"name": "keys"}}}},
        },
    }
    may = allowed("use", "serviceaccounts", "team", "robot")
    may.allow("alice", "get", "secrets", "team", "keys")

    denial = judged(obj, may=may)

    assert isinstance(denial, DeniedError)
    assert [cause.field for cause in denial.causes] == ["spec.chart.spec.verify.secretRef"]
    may.allow("alice", "use", "secrets", "platform", "keys")
    assert judged(obj, may=may) is None


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"labels": {"a": "b"}},
        {"finalizers": [], "deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
def test_nobody_is_asked_about_writes_beside_the_spec(metadata: Json) -> None:
    may = FakeAuthorizer()
    old = kustomization(metadata={"finalizers": ["finalizers.fluxcd.io"]})

    assert judged(kustomization(metadata=metadata), old, may=may) is None
    assert may.questions == []


def test_pace_is_free_and_content_is_not() -> None:
    old = kustomization(serviceAccountName="robot")

    assert judged(kustomization(serviceAccountName="robot", suspend=True), old) is None
    mine = {"sourceRef": {"kind": "GitRepository", "name": "mine"}}
    assert judged(kustomization(serviceAccountName="robot", **mine), old) is not None


def test_namespace_may_require_a_named_account() -> None:
    may = allowed("impersonate", "serviceaccounts", SYSTEM, "kustomize-applier")

    denial = judged(kustomization(), may=may, labels={REQUIRED: "true"})

    assert denial is not None
    assert "must be set" in str(denial)
    assert judged(kustomization(), may=may, labels={REQUIRED: "false"}) is None


def test_an_api_server_that_does_not_answer_denies() -> None:
    may = FakeAuthorizer()
    may.fail(TransientError("no answer"))

    assert judged(kustomization(serviceAccountName="robot"), may=may) is not None


def labelled(
    new: Json, old: Json | None, *, may: FakeAuthorizer, subresource: str = ""
) -> PenstockError | None:
    async def main() -> PenstockError | None:
        plugin = tenancy.make_labels(admission.services(authorize=may))
        asked = admission.request(new, old=old, subresource=subresource)
        return await admission.refusal(plugin, asked)

    return asyncio.run(main())


@pytest.mark.parametrize("subresource", ["", "status", "finalize"])
def test_tenant_cannot_relabel_through_any_subresource(subresource: str) -> None:
    strict, free = namespace(**{REQUIRED: "true"}), namespace()

    denial = labelled(free, strict, may=FakeAuthorizer(), subresource=subresource)

    assert isinstance(denial, DeniedError)
    assert REQUIRED in str(denial)
    assert "namespaces.policy.penstock.dev 'team'" in str(denial)


def test_who_may_change_policies_may_relabel() -> None:
    may = FakeAuthorizer()
    may.allow("alice", "update", "namespaces", "")

    assert labelled(namespace(**{REQUIRED: "true"}), None, may=may) is None


def test_other_labels_are_free() -> None:
    may = FakeAuthorizer()

    assert labelled(namespace(team="b"), namespace(team="a"), may=may) is None
    assert may.questions == []
