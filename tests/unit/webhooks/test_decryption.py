"""Who may have what decrypted, with whose keys, and what is told to whom."""

import asyncio
import base64
import json

import pytest

from controllers.applying import admission
from tests.fakes.decryptionscene import (
    APPLIERS,
    OTHERS,
    SOPS,
    Cluster,
    applier,
    carrier,
    manifest,
    plain,
    request,
    values,
)
from toolkit.decrypt import envelope
from toolkit.kube.errors import ApiError
from toolkit.objects import Json, dig
from webhooks import ciphertextguard, configuration, decryption
from webhooks.ciphertextguard import CiphertextGuard, encoded_markers
from webhooks.plugin import Answer, DeniedError
from webhooks.request import User


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_whoever_has_the_verb_gets_the_secret_decrypted(cluster: Cluster) -> None:
    cluster.grant()

    answer = cluster.review(request(carrier()))

    assert values(answer) == {"password": "hunter2"}
    assert cluster.grants.asked == ["decrypt secrets prod/sops"]


def test_the_audit_names_document_and_keys_and_nothing_secret(cluster: Cluster) -> None:
    cluster.grant()

    answer = cluster.review(request(carrier()))

    assert answer.audit["keys"] == "prod/sops"
    assert answer.audit["document"].startswith("sha256:")
    assert not [text for text in answer.audit.values() if "hunter2" in text]
    assert answer.warnings == ()


@pytest.mark.parametrize("dry_run", [False, True])
def test_without_the_verb_nothing_is_decrypted_not_even_dry(
    cluster: Cluster, *, dry_run: bool
) -> None:
    cluster.denied(request(carrier(), dry_run=dry_run), "verb 'decrypt'")

    assert cluster.server.count("GET", "/secrets/sops") == 0


def test_the_refusal_is_the_same_whether_or_not_there_are_keys(cluster: Cluster) -> None:
    with_keys = cluster.denied(request(carrier()), "may not decrypt")
    del cluster.server.objects["secrets", "prod", "sops"]
    without = cluster.denied(request(carrier()), "may not decrypt")

    assert str(with_keys) == str(without)


def test_the_keys_that_an_annotation_names_are_used_alone(cluster: Cluster) -> None:
    cluster.keys("other", OTHERS)
    cluster.grant("sops", "other")
    secret = carrier(OTHERS)
    secret["metadata"]["annotations"] = {envelope.KEYS_FROM: "other"}

    answer = cluster.review(request(secret))

    assert values(answer) == {"password": "hunter2"}
    assert cluster.grants.asked == ["decrypt secrets prod/other"]


def test_several_key_secrets_are_tried_if_they_may_be_used(cluster: Cluster) -> None:
    cluster.keys("other", OTHERS)
    cluster.grant("sops", "other")

    assert values(cluster.review(request(carrier(SOPS)))) == {"password": "hunter2"}
    assert values(cluster.review(request(carrier(OTHERS)))) == {"password": "hunter2"}


def test_more_key_secrets_than_may_be_tried_are_refused(cluster: Cluster) -> None:
    names = [f"keys-{n}" for n in range(decryption.MAX_KEY_SECRETS)]
    for name in names:
        cluster.keys(name, OTHERS)
    cluster.grant("sops", *names)

    cluster.denied(request(carrier()), "has more than 16 Secrets with the label")
    cluster.server.remove("secrets", names[0], "prod")

    assert values(cluster.review(request(carrier()))) == {"password": "hunter2"}


def test_keys_that_may_not_be_used_are_not_tried(cluster: Cluster) -> None:
    cluster.keys("other", OTHERS)
    cluster.grant("sops")

    cluster.denied(request(carrier(OTHERS)), "no key opens the data key")


def test_ciphertext_of_another_namespace_is_not_replayed(cluster: Cluster) -> None:
    cluster.keys("sops", SOPS, namespace="evil")
    cluster.grant(namespace="evil")

    cluster.denied(request(carrier(namespace="evil")), r"metadata\.namespace")


def test_keys_of_another_namespace_are_not_used(cluster: Cluster) -> None:
    cluster.grant()
    cluster.keys("none", OTHERS, namespace="evil")
    cluster.grant("none", namespace="evil")

    cluster.denied(request(carrier(namespace="evil")), "no key opens")


@pytest.mark.parametrize("kind", APPLIERS)
def test_an_applier_vouches_for_what_it_renamed(cluster: Cluster, kind: str) -> None:
    cluster.applier(kind)
    secret = carrier(namespace="elsewhere")
    secret["metadata"]["name"] = "prefix-db"

    answer = cluster.review(request(secret, user=applier(kind=kind)))

    assert values(answer) == {"password": "hunter2"}
    assert answer.audit["vouched-by"] == f"{kind}/prod/app"
    assert cluster.grants.asked == []


@pytest.mark.parametrize("kind", APPLIERS)
def test_documents_as_values_take_the_word_of_an_applier(cluster: Cluster, kind: str) -> None:
    cluster.applier(kind)
    cluster.grant()
    inner = base64.b64encode(SOPS.yaml({"user": "admin"})).decode()
    secret = {**envelope.mark(manifest()), "data": {"a.yaml": inner}}

    answer = cluster.review(request(secret, user=applier(kind=kind)))

    assert values(answer) == {"a.yaml": "user: admin\n"}
    cluster.denied(request(secret), "do not say which Secret")


CLAIM = "provenance.penstock.dev/applier"


@pytest.mark.parametrize("kind", APPLIERS)
@pytest.mark.parametrize(
    ("spec", "user", "why"),
    [
        ({"decryption": None}, {}, "names no keys: name a Secret with keys"),
        ({"decryption": {"provider": "sops"}}, {}, "names no keys"),
        ({"kubeConfig": {"secretRef": {"name": "remote"}}}, {}, "another cluster"),
        ({"serviceAccountName": "deployer"}, {"account": "somebody"}, "does not act as"),
        ({}, {"name": "missing"}, "prod/missing does not exist"),
        ({}, {"namespace": "evil"}, "evil/app does not exist"),
    ],
    ids=["no-decryption", "no-keys", "remote", "account", "missing", "namespace"],
)
def test_a_claim_that_is_not_so_vouches_for_nothing(
    cluster: Cluster, kind: str, spec: Json, user: Json, why: str
) -> None:
    cluster.applier(kind, **spec)

    told = cluster.denied(request(carrier(), user=applier(kind=kind, **user)), "may not decrypt")

    assert why in str(told)


@pytest.mark.parametrize("kind", APPLIERS)
@pytest.mark.parametrize(
    ("name", "claimed"),
    [
        ("alice", ("{kind}/prod/app",)),
        ("system:serviceaccount:evil:deployer", ("{kind}/prod/app",)),
        ("system:serviceaccount:penstock-system:other", ("{kind}/prod/app",)),
        ("system:serviceaccount:prod:deployer", ("{kind}/prod/app", "b")),
        ("system:serviceaccount:prod:deployer", ("Deployment/prod/app",)),
        ("system:serviceaccount:prod:deployer", ("prod/app",)),
        ("system:serviceaccount:prod:deployer", ()),
        ("system:serviceaccount:prod:deployer", None),
    ],
    ids=[
        *("person", "tenant", "install-account"),
        *("two-claims", "kind", "no-kind", "empty", "no-claim"),
    ],
)
def test_a_forged_claim_vouches_for_nothing(
    cluster: Cluster, kind: str, name: str, claimed: tuple[str, ...] | None
) -> None:
    cluster.applier(kind)
    extra = {} if claimed is None else {CLAIM: tuple(one.format(kind=kind) for one in claimed)}

    cluster.denied(request(carrier(), user=User(name=name, extra=extra)), "may not decrypt")

    assert cluster.server.count("GET", "/secrets/sops") == 0


def test_one_kind_does_not_vouch_in_the_name_of_another(cluster: Cluster) -> None:
    cluster.applier("HelmRelease")

    cluster.denied(request(carrier(), user=applier()), "Kustomization/prod/app does not exist")


@pytest.mark.parametrize("kind", APPLIERS)
def test_keys_of_the_namespace_of_the_secret_are_not_an_appliers(
    cluster: Cluster, kind: str
) -> None:
    cluster.applier(kind)
    cluster.keys("sops", OTHERS, namespace="elsewhere")
    secret = carrier(OTHERS, namespace="elsewhere")

    cluster.denied(request(secret, user=applier(kind=kind)), "no key opens the data key")


@pytest.mark.parametrize(
    ("kind", "account"), [("Kustomization", "kustomize-applier"), ("HelmRelease", "helm-applier")]
)
def test_the_default_account_of_its_kind_may_carry_the_word(
    cluster: Cluster, kind: str, account: str
) -> None:
    cluster.applier(kind)
    extra = applier(kind=kind).extra
    user = User(name=f"system:serviceaccount:penstock-system:{account}", extra=extra)

    assert values(cluster.review(request(carrier(), user=user))) == {"password": "hunter2"}


def test_an_error_of_the_api_server_is_no_permission(cluster: Cluster) -> None:
    cluster.kustomization()
    cluster.server.fail("GET", "/kustomizations/app", 500, times=9)

    with pytest.raises(ApiError):
        cluster.review(request(carrier(), user=applier()))


def test_a_label_without_a_document_is_refused(cluster: Cluster) -> None:
    cluster.denied(request(plain(a="b")), "no SOPS document")


def test_a_label_on_a_secret_that_was_never_encrypted_is_refused(cluster: Cluster) -> None:
    old = plain(a="b")
    old["metadata"] = {k: v for k, v in old["metadata"].items() if k != "labels"}

    cluster.denied(request(plain(a="b"), old=old), "no SOPS document")


def test_decrypted_data_change_only_with_the_document(cluster: Cluster) -> None:
    cluster.grant()

    cluster.denied(request(plain(a="c"), old=plain(a="b")), "change the document")


def test_labels_of_a_decrypted_secret_change_without_keys(cluster: Cluster) -> None:
    new = plain(a="b")
    new["metadata"]["labels"]["team"] = "x"

    assert cluster.review(request(new, old=plain(a="b"))).object is None
    assert cluster.grants.asked == []


def test_what_we_noted_stays_as_long_as_the_label_does(cluster: Cluster) -> None:
    old, new = plain(a="b"), plain(a="b")
    new["metadata"]["annotations"] = {envelope.RECIPIENTS: "age:forged", "mine": "1"}

    kept = cluster.review(request(new, old=old)).object

    assert dig(kept or {}, "metadata", "annotations") == {
        **old["metadata"]["annotations"],
        "mine": "1",
    }


def test_without_the_label_the_secret_is_nobodys(cluster: Cluster) -> None:
    new = plain(a="changed")
    new["metadata"]["labels"] = {}

    answer = cluster.review(request(new, old=plain(a="b")))

    assert answer.object is not None
    assert dig(answer.object, "metadata", "annotations") == {}
    assert values(answer) == {"a": "changed"}


def test_old_plaintext_beside_the_carrier_is_replaced(cluster: Cluster) -> None:
    cluster.grant()
    old = plain(password="hunter2", gone="x")
    new = carrier()
    new["data"] |= old["data"]

    assert values(cluster.review(request(new, old=old))) == {"password": "hunter2"}


def test_the_request_itself_is_not_changed(cluster: Cluster) -> None:
    cluster.grant()
    secret = carrier()
    before = json.dumps(secret)

    cluster.review(request(secret))

    assert json.dumps(secret) == before


# The guard.


def guard(obj: Json, old: Json | None = None) -> Answer:
    return asyncio.run(CiphertextGuard().review(request(obj, old=old)))


def unlabelled(secret: Json) -> Json:
    return {**secret, "metadata": {**secret["metadata"], "labels": {}}}


def test_ciphertext_without_the_label_is_refused() -> None:
    with pytest.raises(DeniedError, match=rf"label it {envelope.LABEL}=true") as caught:
        guard(unlabelled(carrier()))

    assert caught.value.causes[0].field == f"data[{envelope.CARRIER}]"


def test_a_carrier_that_somebody_put_back_is_refused() -> None:
    with pytest.raises(DeniedError, match="was not decrypted"):
        guard(carrier())


def test_a_secret_without_ciphertext_passes_the_guard() -> None:
    assert guard(plain(a="about ENC[AES256_GCM, and the like")) == Answer()


@pytest.mark.parametrize("before", range(4))
def test_the_marker_is_found_in_base64_wherever_it_begins(before: int) -> None:
    value = base64.b64encode(b"x" * before + b"ENC[AES256_GCM,data:").decode()

    assert any(text in value for text in encoded_markers())


def test_other_text_does_not_look_like_the_marker() -> None:
    value = base64.b64encode(b"ENC[AES256_CBC,data: ENC AES256_GCM").decode()

    assert not any(text in value for text in encoded_markers())


def test_the_rows_fail_closed_and_reach_every_secret() -> None:
    for row in (decryption.ROW, ciphertextguard.ROW):
        assert not row.fail_open
        assert row.everywhere
    assert ciphertextguard.ROW.object_selector is None
    assert decryption.ROW.object_selector == {"matchLabels": {envelope.LABEL: "true"}}


def test_controllers_know_the_webhook_by_the_name_that_is_registered() -> None:
    target = configuration.Target(namespace="penstock-system")

    (registered,) = configuration.configurations((decryption.ROW,), target, bundle="QQ==")

    assert admission.decrypts(json.dumps(registered).encode())


@pytest.mark.parametrize(
    "change",
    [
        {"failurePolicy": "Ignore"},
        {"objectSelector": {}},
        {"name": "decryption.example.com"},
        {"clientConfig": {"url": "https://127.0.0.1"}},
        {"namespaceSelector": {"matchLabels": {"a": "b"}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_controllers_trust_no_webhook_that_lets_ciphertext_pass(change: Json) -> None:
    target = configuration.Target(namespace="penstock-system")
    (registered,) = configuration.configurations((decryption.ROW,), target, bundle="QQ==")
    registered["webhooks"][0] |= change

    assert not admission.decrypts(json.dumps(registered).encode())
