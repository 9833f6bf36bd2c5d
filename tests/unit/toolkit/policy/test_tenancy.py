"""Nobody gets more power through an object than they hold, and nobody's cleanup is blocked."""

from collections.abc import Iterator
from typing import Any

import pytest

import crds
from crds import schema
from toolkit.errors import AccessDeniedError
from toolkit.objects import Json
from toolkit.policy import secretrefs, tenancy
from toolkit.policy.provenance import LABEL as PROVENANCE
from toolkit.policy.tenancy import REQUIRED, Installation

HERE = Installation(namespace="system")
LOCKED = Installation(namespace="system", default_service_account="default")


def kustomization(version: str = "v1", **spec: Any) -> Json:
    return {
        "apiVersion": f"kustomize.toolkit.fluxcd.io/{version}",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {"interval": "1m", "sourceRef": {"kind": "GitRepository", "name": "a"}, **spec},
    }


def borrowed(obj: Json, installation: Installation = HERE) -> list[str]:
    return [
        f"{power.field}: {'|'.join(power.verbs)} {power.resource} {power.namespace}/{power.name}"
        for power in tenancy.powers(obj, "team", installation)
    ]


def account_fields(node: Json, path: str = "") -> Iterator[str]:
    for name, inner in node.get("properties", {}).items():
        here = f"{path}.{name}".lstrip(".")
        if name.lower().endswith("serviceaccountname"):
            yield here
        element = inner.get("items")
        yield from account_fields(element or inner, f"{here}[]" if element else here)


def test_every_field_that_names_an_account_is_in_the_table() -> None:
    found = {
        ((kind.group, kind.kind), path)
        for kind in crds.KINDS
        for model in (kind.model, *(old.model for old in kind.older))
        for path in account_fields(schema.annotated(model))
        if kind.namespaced
    }

    assert found == set(tenancy.ACCOUNTS)


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_named_account_is_borrowed_in_every_version(version: str) -> None:
    assert borrowed(kustomization(version, serviceAccountName="robot")) == [
        "spec.serviceAccountName: impersonate|use serviceaccounts team/robot"
    ]


@pytest.mark.parametrize("spec", [{}, {"serviceAccountName": ""}])
def test_naming_no_account_borrows_the_default_one(spec: Json) -> None:
    obj = kustomization(**spec)

    assert borrowed(obj) == [
        "spec.serviceAccountName: impersonate|use serviceaccounts system/kustomize-applier"
    ]
    assert borrowed(obj, LOCKED) == [
        "spec.serviceAccountName: impersonate|use serviceaccounts team/default"
    ]


def test_kubeconfig_is_borrowed_instead_of_a_local_account() -> None:
    obj = kustomization(serviceAccountName="there", kubeConfig={"secretRef": {"name": "prod"}})

    assert borrowed(obj) == ["spec.kubeConfig.secretRef: get|use secrets team/prod"]


def test_a_config_map_may_name_any_account() -> None:
    obj = kustomization(kubeConfig={"configMapRef": {"name": "prod"}})

    assert borrowed(obj) == ["spec.kubeConfig.configMapRef: impersonate|use serviceaccounts team/"]


def test_keys_and_variables_are_borrowed() -> None:
    decryption = {"provider": "sops", "secretRef": {"name": "k"}, "serviceAccountName": "kms"}
    variables = [{"kind": "ConfigMap", "name": "c"}, {"kind": "Secret", "name": "s"}]
    obj = kustomization(
        serviceAccountName="robot",
        decryption=decryption,
        postBuild={"substituteFrom": variables},
    )

    assert borrowed(obj)[1:] == [
        "spec.decryption.serviceAccountName: impersonate|use serviceaccounts team/kms",
        "spec.decryption.secretRef: get|use secrets team/k",
        "spec.postBuild.substituteFrom[1]: get|use secrets team/s",
    ]


def helm_release(version: str = "v2", **spec: Any) -> Json:
    return {
        "apiVersion": f"helm.toolkit.fluxcd.io/{version}",
        "kind": "HelmRelease",
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {"interval": "1m", "chartRef": {"kind": "OCIRepository", "name": "a"}, **spec},
    }


@pytest.mark.parametrize("version", ["v2", "v2beta2", "v2beta1"])
def test_a_release_borrows_its_account_and_the_secrets_with_values(version: str) -> None:
    values = [{"kind": "ConfigMap", "name": "c"}, {"kind": "Secret", "name": "s"}]
    secret = "spec.valuesFrom[1]: get|use secrets team/s"
    obj = helm_release(version, serviceAccountName="robot", valuesFrom=values)

    assert borrowed(obj) == [
        "spec.serviceAccountName: impersonate|use serviceaccounts team/robot",
        secret,
    ]
    assert borrowed(helm_release(version, valuesFrom=values)) == [
        "spec.serviceAccountName: impersonate|use serviceaccounts system/helm-applier",
        secret,
    ]


def test_a_release_borrows_the_keys_that_it_names() -> None:
    decryption = {"provider": "sops", "secretRef": {"name": "k"}, "serviceAccountName": "kms"}

    assert borrowed(helm_release(serviceAccountName="robot", decryption=decryption))[1:] == [
        "spec.decryption.serviceAccountName: impersonate|use serviceaccounts team/kms",
        "spec.decryption.secretRef: get|use secrets team/k",
    ]


@pytest.mark.parametrize(
    ("kind", "field", "spared"),
    [
        ("GitRepository", "serviceAccountName", False),
        ("OCIRepository", "serviceAccountName", True),
        ("Bucket", "serviceAccountName", True),
        ("HelmRepository", "secretRef", True),
    ],
)
def test_source_that_names_nobody_at_a_cloud_borrows_the_default_account(
    kind: str, field: str, *, spared: bool
) -> None:
    def source(**spec: Any) -> Json:
        return {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": kind, "spec": spec}

    at_a_cloud = source(provider="azure")
    default = f"spec.{field}: impersonate|use serviceaccounts team/default"

    assert borrowed(at_a_cloud, LOCKED) == [default]
    assert borrowed(at_a_cloud) == []
    for elsewhere in ({"provider": "generic"}, {"provider": "github"}, {}):
        assert borrowed(source(**elsewhere), LOCKED) == []
    # Git takes an authority from the Secret, and signs in as the account all the same.
    secret = source(provider="azure", secretRef={"name": "login"})
    sent = ["spec.secretRef: get|use secrets team/login"]
    assert borrowed(secret, LOCKED) == ([] if spared else [default]) + sent


def bearing(holder: tuple[str, str], path: str) -> Json:
    """Return an object of a kind that names the Secret ``s`` in one field."""
    value: Any = {"kind": "Secret", "name": "s"}
    for part in reversed(path.split(".")):
        value = {part.removesuffix("[]"): [value] if part.endswith("[]") else value}
    value["spec"].setdefault("serviceAccountName", "")
    return {"apiVersion": f"{holder[0]}/v1", "kind": holder[1], **value}


@pytest.mark.parametrize(
    "field", secretrefs.SECRETS, ids=lambda field: f"{field.holder[1]}-{field.path}"
)
def test_every_secret_that_an_object_names_is_borrowed(field: secretrefs.Field) -> None:
    found = borrowed(bearing(field.holder, field.path))

    path = field.path.replace("[]", "[0]")
    assert [each for each in found if " secrets " in each] == [f"{path}: get|use secrets team/s"]


def test_a_release_borrows_the_keys_of_signers_where_its_source_is() -> None:
    chart = {"sourceRef": {"kind": "HelmRepository", "name": "shared", "namespace": "platform"}}
    obj = helm_release(chart={"spec": {**chart, "verify": {"secretRef": {"name": "s"}}}})

    assert borrowed(obj)[1:] == ["spec.chart.spec.verify.secretRef: get|use secrets platform/s"]


def test_many_secrets_of_a_list_are_all_of_the_namespace() -> None:
    values = [{"kind": "Secret", "name": f"s{number}"} for number in range(65)]

    assert borrowed(helm_release(valuesFrom=values))[1:] == [
        "spec.valuesFrom: get|use secrets team/"
    ]
    assert len(borrowed(helm_release(valuesFrom=values[:64]))) == 65


def automation(**ref: str) -> Json:
    return {
        "apiVersion": "image.toolkit.fluxcd.io/v1",
        "kind": "ImageUpdateAutomation",
        "spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet", **ref}},
    }


def pushed(repository: Json | None) -> list[str]:
    return [
        f"{power.field}: {'|'.join(power.verbs)} {power.resource} {power.namespace}/{power.name}"
        for power in tenancy.pushing(repository, "team", HERE)
    ]


def test_an_automation_borrows_what_its_repository_signs_in_with() -> None:
    spec: Json = {name: {"name": name} for name in ("secretRef", "proxySecretRef")}
    spec |= {"verify": {"secretRef": {"name": "signers"}}, "serviceAccountName": "cloud"}
    repository = {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository"}

    assert pushed(repository | {"spec": spec}) == [
        "spec.sourceRef: impersonate|use serviceaccounts team/cloud",
        "spec.sourceRef: get|use secrets team/secretRef",
        "spec.sourceRef: get|use secrets team/proxySecretRef",
    ]
    assert pushed(repository | {"spec": {}}) == []


def test_a_repository_that_is_not_there_yet_may_name_any_secret() -> None:
    assert pushed(None) == ["spec.sourceRef: get|use secrets team/"]


@pytest.mark.parametrize(
    ("ref", "name"), [({}, "fleet"), ({"namespace": "team"}, "fleet"), ({"namespace": "other"}, "")]
)
def test_an_automation_pushes_to_the_repository_that_it_names(ref: Json, name: str) -> None:
    assert tenancy.pushes_to(automation(**ref), "team") == name
    assert tenancy.pushes_to(kustomization(), "team") == ""


def test_labels_of_all_policies_are_protected() -> None:
    old: Json = {"metadata": {"labels": {PROVENANCE: "production", "team": "a"}}}
    new: Json = {"metadata": {"labels": {PROVENANCE: "test", "team": "b"}}}

    assert tenancy.protected(new, old) == {PROVENANCE}


def test_default_decryption_account_is_borrowed() -> None:
    installation = Installation(namespace="system", default_decryption_service_account="kms")

    assert borrowed(kustomization(decryption={"provider": "sops"}), installation)[1:] == [
        "spec.decryption.serviceAccountName: impersonate|use serviceaccounts team/kms"
    ]


@pytest.mark.parametrize("kind", ["GitRepository", "OCIRepository", "Bucket"])
def test_source_borrows_the_account_that_it_names(kind: str) -> None:
    source = {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": kind, "spec": {}}
    naming = source | {"spec": {"serviceAccountName": "cloud"}}

    assert borrowed(source) == []
    assert borrowed(naming) == [
        "spec.serviceAccountName: impersonate|use serviceaccounts team/cloud"
    ]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"metadata": {"finalizers": []}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}},
        {"status": {"observedGeneration": 2}},
    ],
)
def test_writes_beside_the_spec_borrow_nothing(change: Json) -> None:
    old = kustomization()

    assert not tenancy.lends(old | change, old)


@pytest.mark.parametrize("field", sorted(tenancy.PACE))
def test_pace_borrows_nothing(field: str) -> None:
    assert not tenancy.lends(kustomization(**{field: "5m"}), kustomization())


@pytest.mark.parametrize(
    "change",
    [
        {"serviceAccountName": "admin"},
        # the account stays, and what it is told to do changes
        {"sourceRef": {"kind": "GitRepository", "name": "mine"}},
        {"path": "./mine"},
        {"patches": [{"patch": "{}"}]},
        {"prune": False},
    ],
)
def test_whatever_else_changes_is_borrowed_anew(change: Json) -> None:
    assert tenancy.lends(kustomization(**change), kustomization())


def test_a_change_of_what_is_being_deleted_is_borrowed_anew() -> None:
    dying = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}

    assert tenancy.lends(kustomization(serviceAccountName="admin") | dying, kustomization() | dying)


def test_refusal_names_field_account_user_and_remedy() -> None:
    (power,) = tenancy.powers(kustomization(serviceAccountName="robot"), "team", HERE)

    assert str(power.refusal("jane")) == (
        "spec.serviceAccountName needs serviceaccounts 'team/robot', which user 'jane' may not "
        "use: ask for the verb 'impersonate' or 'use' on serviceaccounts 'team/robot'"
    )
    assert power.user == "system:serviceaccount:team:robot"


def test_refusal_of_the_default_says_that_one_should_be_named() -> None:
    (power,) = tenancy.powers(kustomization(), "team", HERE)

    assert "is not set, so this would act as 'system/kustomize-applier'" in str(power.refusal("j"))
    assert "name an account that you may use" in str(power.refusal("j"))


@pytest.mark.parametrize("value", ["true", "True", "yes", ""])
def test_namespace_may_require_an_account(value: str) -> None:
    labels = {REQUIRED: value}

    with pytest.raises(AccessDeniedError, match="must be set"):
        tenancy.require_account(labels, account="", remote=False)
    tenancy.require_account(labels, account="robot", remote=False)
    tenancy.require_account(labels, account="", remote=True)


@pytest.mark.parametrize("labels", [{}, {REQUIRED: "false"}])
def test_other_namespaces_require_none(labels: dict[str, str]) -> None:
    tenancy.require_account(labels, account="", remote=False)


def namespace(**labels: str) -> Json:
    named = {f"policy.penstock.dev/{key}": value for key, value in labels.items()}
    return {"metadata": {"name": "team", "labels": {"team": "a", **named}}}


@pytest.mark.parametrize(
    ("new", "old", "changed"),
    [
        (namespace(), None, False),
        (namespace(), {"metadata": {"labels": {"team": "b"}}}, False),
        (namespace(a="1"), namespace(a="1"), False),
        (namespace(a="1"), None, True),
        (namespace(a="2"), namespace(a="1"), True),
        (namespace(), namespace(a="1"), True),
        ({"metadata": {}}, namespace(a="1"), True),
    ],
)
def test_protected_labels_are_seen_to_change(new: Json, old: Json | None, *, changed: bool) -> None:
    assert bool(tenancy.protected(new, old)) is changed
