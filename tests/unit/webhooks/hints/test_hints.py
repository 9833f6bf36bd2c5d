"""Hints tell what is missing or invalid, only to users who could find it out."""

import base64
from typing import Any

import pytest

from tests.fakes import admission, specs
from tests.fakes.admission import FakeAuthorizer, FakeCluster
from tests.fakes.apiserver import FakeApiServer
from toolkit.errors import TransientError
from toolkit.objects import Json
from webhooks.hints.admission import ROW, Hints

VERSIONS = {
    "GitRepository": "source.toolkit.fluxcd.io/v1",
    "OCIRepository": "source.toolkit.fluxcd.io/v1",
    "HelmRepository": "source.toolkit.fluxcd.io/v1",
    "HelmChart": "source.toolkit.fluxcd.io/v1",
    "Bucket": "source.toolkit.fluxcd.io/v1",
    "Kustomization": "kustomize.toolkit.fluxcd.io/v1",
    "HelmRelease": "helm.toolkit.fluxcd.io/v2",
    "ImageRepository": "image.toolkit.fluxcd.io/v1",
    "ImageUpdateAutomation": "image.toolkit.fluxcd.io/v1",
    "Provider": "notification.toolkit.fluxcd.io/v1",
    "SourcePolicy": "policy.penstock.dev/v1alpha1",
}
APPLIER = {"provenance.penstock.dev/applier": ("Kustomization/apps/all",)}
HOST_KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519" + bytes(36)).decode()
READABLE = ("secrets", "configmaps", "serviceaccounts", "gitrepositories", "kustomizations")

SECRET = {"secretRef": {"name": "s"}}
TELEGRAM = {"type": "telegram", "address": "", "channel": "-1", **SECRET}
DISPATCH = {"type": "githubdispatch", "address": "https://github.com/org/app", **SECRET}
HUB = {
    "type": "azureeventhub",
    "address": "hub",
    "channel": "team",
    "serviceAccountName": "robot",
    **SECRET,
}
SIGNED = {
    "commit": {
        "author": {"email": "bot@example.com"},
        "signingKey": {"type": "ssh", "secretRef": {"name": "s"}},
    }
}


def made(kind: str, name: str = "app", *, namespace: str = "apps", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": namespace}
    body = {**specs.RIGHT[kind], **spec}
    return {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": metadata, "spec": body}


def everything() -> FakeAuthorizer:
    authorizer = FakeAuthorizer()
    charts = ("helmrepositories", "helmcharts", "helmreleases")
    for plural in (*READABLE, "ocirepositories", "buckets", *charts):
        for namespace in ("apps", "other"):
            authorizer.allow("alice", "get", plural, namespace)
    return authorizer


async def hints(
    obj: Json,
    *objects: Json,
    secrets: dict[str, dict[str, str]] | None = None,
    config_maps: dict[str, dict[str, str]] | None = None,
    authorize: FakeAuthorizer | None = None,
    old: Json | None = None,
    **more: Any,
) -> tuple[str, ...]:
    server = FakeApiServer()
    server.kinds = {**server.kinds, ("", "v1", "serviceaccounts"): "ServiceAccount"}
    for name, data in (secrets or {}).items():
        encoded = {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}
        server.put("secrets", name, "apps", data=encoded)
    for name, data in (config_maps or {}).items():
        server.put("configmaps", name, "apps", data=data)
    async with server.running() as client:
        services = admission.services(
            cluster=FakeCluster(objects), authorize=authorize or everything(), client=client
        )
        plugin = Hints.make(services)
        answer = await admission.admitted(plugin, admission.request(obj, old=old, **more))
        return answer.warnings


async def test_a_source_that_does_not_exist_is_told() -> None:
    assert await hints(made("Kustomization")) == (
        "spec.sourceRef: GitRepository 'apps/apps' does not exist",
    )


async def test_what_exists_is_not_mentioned() -> None:
    assert await hints(made("Kustomization"), made("GitRepository", "apps")) == ()


async def test_every_field_that_names_an_object_is_looked_at() -> None:
    body = made(
        "Kustomization",
        dependsOn=[{"name": "gone"}, {"name": "gone", "kind": "HelmRelease"}],
        serviceAccountName="robot",
        decryption={"provider": "sops", "secretRef": {"name": "age"}},
        postBuild={
            "substituteFrom": [
                {"kind": "ConfigMap", "name": "vars"},
                {"kind": "Secret", "name": "maybe", "optional": True},
            ]
        },
    )

    told = await hints(body, made("GitRepository", "apps"))

    assert told == (
        "spec.dependsOn[0]: Kustomization 'apps/gone' does not exist",
        "spec.dependsOn[1]: HelmRelease 'apps/gone' does not exist",
        "spec.serviceAccountName: ServiceAccount 'apps/robot' does not exist",
        "spec.decryption.secretRef: Secret 'apps/age' does not exist",
        "spec.postBuild.substituteFrom[0]: ConfigMap 'apps/vars' does not exist",
    )


async def test_who_may_not_get_an_object_hears_nothing_of_it() -> None:
    body = made("GitRepository", secretRef={"name": "keys"})
    nobody = FakeAuthorizer()

    there = await hints(body, secrets={"keys": {"username": "u"}}, authorize=nobody)
    missing = await hints(body, authorize=nobody)
    source = await hints(made("Kustomization"), authorize=nobody)

    assert there == missing == source == ()
    assert ("alice", "get", "secrets", "apps", "keys") in nobody.questions


async def test_the_right_to_one_namespace_tells_nothing_of_another() -> None:
    own = FakeAuthorizer()
    own.allow("alice", "get", "gitrepositories", "apps")
    ref = {"kind": "GitRepository", "name": "x", "namespace": "hidden"}

    assert await hints(made("Kustomization", sourceRef=ref), authorize=own) == ()


@pytest.mark.parametrize(
    "data", [{"token": "x"}, {"address": "Endpoint=sb://a.example;SharedAccessKey=b"}]
)
async def test_credentials_beside_an_account_are_told(data: dict[str, str]) -> None:
    told = await hints(made("Provider", **HUB), secrets={"s": data})

    assert "and spec.serviceAccountName is set" in " ".join(told)


@pytest.mark.parametrize(
    ("obj", "data", "words"),
    [
        (
            made("ImageRepository", secretRef={"name": "s"}),
            {"username": "u"},
            "'username' alone",
        ),
        (
            made("ImageRepository", certSecretRef={"name": "s"}),
            {"tls.crt": "x"},
            "'tls.key'",
        ),
        (
            made("ImageUpdateAutomation", git=SIGNED),
            {"git.asc": "x"},
            "has no 'identity'",
        ),
        (
            made("ImageUpdateAutomation", git=SIGNED),
            {"identity": "ssh-ed25519 AAAA"},
            "'identity' is not a private key",
        ),
        (made("Provider", **TELEGRAM), {"address": "x"}, "needs a token: write it as 'token'"),
        (made("Provider", **TELEGRAM), {"githubAppID": "1"}, "does not sign in as a GitHub App"),
        (made("Provider", **DISPATCH), {"githubAppID": "1"}, "'githubAppPrivateKey'"),
        (made("Provider", certSecretRef={"name": "s"}), {"tls.crt": "x"}, "only one of"),
        (made("Provider", proxySecretRef={"name": "s"}), {"address": "x"}, "needs 'address'"),
        (made("GitRepository", secretRef={"name": "s"}), {"username": "u"}, "not 'password'"),
        (made("GitRepository", secretRef={"name": "s"}), {"githubAppID": "1"}, "a GitHub App"),
        (
            made("GitRepository", url="ssh://git@a.example/x", secretRef={"name": "s"}),
            {"identity": "k"},
            "needs 'known_hosts'",
        ),
        (
            made("GitRepository", url="ssh://git@a.example/x", secretRef={"name": "s"}),
            {"identity": "k", "known_hosts": f"junk\na.example {HOST_KEY}"},
            "'known_hosts' line 1 holds no SSH public key",
        ),
        (
            made("GitRepository", url="ssh://git@a.example/x", secretRef={"name": "s"}),
            {"identity": "k", "known_hosts": f"junk {HOST_KEY}\n@revoked * junk"},
            "'known_hosts' line 2 holds no SSH public key, and revokes a key",
        ),
        (
            made("GitRepository", verify={"mode": "HEAD", "secretRef": {"name": "s"}}),
            {"a.sshpub": f"ada@example.org no-pty {HOST_KEY}"},
            "'a.sshpub' line 1 has an option that signatures cannot honour",
        ),
        (
            made("GitRepository", verify={"mode": "HEAD", "secretRef": {"name": "s"}}),
            {"a.sshpub": f"{HOST_KEY} ada\n@revoked junk"},
            "'a.sshpub' line 2 holds no SSH public key, and revokes one",
        ),
        (
            made("GitRepository", provider="github", secretRef={"name": "s"}),
            {"username": "u"},
            "needs 'githubAppID'",
        ),
        (made("GitRepository", proxySecretRef={"name": "s"}), {"address": "x"}, "needs 'address'"),
        (
            made("GitRepository", verify={"mode": "HEAD", "secretRef": {"name": "s"}}),
            {},
            "holds no keys",
        ),
        (made("OCIRepository", secretRef={"name": "s"}), {"username": "u"}, "'username' alone"),
        (made("OCIRepository", secretRef={"name": "s"}), {".dockerconfigjson": "{"}, ""),
        (made("OCIRepository", certSecretRef={"name": "s"}), {"tls.crt": "x"}, "only one of"),
        (
            made("OCIRepository", verify={"secretRef": {"name": "s"}}),
            {"a": "b"},
            "add one as *.pub",
        ),
        (
            made(
                "OCIRepository",
                verify={
                    "matchOIDCIdentity": [{"issuer": "^a$", "subject": "^b$"}],
                    "trustedRootSecretRef": {"name": "s"},
                },
            ),
            {},
            "has no 'trusted_root.json'",
        ),
        (
            made("OCIRepository", verify={"provider": "notation", "secretRef": {"name": "s"}}),
            {},
            "trustpolicy.json",
        ),
        (made("Bucket", secretRef={"name": "s"}), {"accesskey": "a"}, "secretkey"),
        (made("Bucket", provider="gcp", secretRef={"name": "s"}), {}, "serviceaccount"),
        (
            made(
                "Bucket",
                sts={
                    "provider": "ldap",
                    "endpoint": "https://m",
                    "secretRef": {"name": "s"},
                },
            ),
            {"username": "u"},
            "password",
        ),
        (made("HelmRepository", secretRef={"name": "s"}), {"password": "p"}, "'password' alone"),
        (
            made("Kustomization", kubeConfig={"secretRef": {"name": "s"}}),
            {"config": ""},
            "no kubeconfig under 'value'",
        ),
        (
            made("Kustomization", decryption={"provider": "sops", "secretRef": {"name": "s"}}),
            {"a.agekey": "no key"},
            "'a.agekey'",
        ),
        (
            made("Kustomization", decryption={"provider": "sops", "secretRef": {"name": "s"}}),
            {"sops.aws-kms": "aws_access_key_id: x"},
            "'sops.aws-kms'",
        ),
        (
            made(
                "Kustomization",
                postBuild={"substituteFrom": [{"kind": "Secret", "name": "s"}]},
            ),
            {"my-name": "x"},
            "'my-name'",
        ),
        (
            made("HelmRelease", kubeConfig={"secretRef": {"name": "s"}}),
            {"config": ""},
            "no kubeconfig under 'value'",
        ),
        (
            made("HelmRelease", decryption={"provider": "sops", "secretRef": {"name": "s"}}),
            {"a.agekey": "no key"},
            "'a.agekey'",
        ),
    ],
)
async def test_a_secret_that_lacks_what_is_needed_is_told(
    obj: Json, data: dict[str, str], words: str
) -> None:
    sources = (
        made("GitRepository", "apps"),
        made("GitRepository", "fleet"),
        made("HelmRepository", "charts"),
    )
    told = await hints(obj, *sources, secrets={"s": data})

    (line,) = told
    assert "Secret 'apps/s' is invalid" in line
    assert words[:20] in line
    assert len(line) <= 120


KEY_CASES: list[tuple[Json, str]] = [
    ({}, "has no key 'values.yaml': add it, or name another in valuesKey"),
    ({"valuesKey": "a.yaml"}, "has no key 'a.yaml': add it, or name another in valuesKey"),
    ({"valuesKey": "b.yaml"}, ""),
    ({"valuesKey": "c.bin"}, ""),
    ({"optional": True}, ""),
]


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
@pytest.mark.parametrize(("fields", "words"), KEY_CASES)
async def test_an_object_without_the_key_of_the_values_is_told(
    kind: str, fields: Json, words: str
) -> None:
    there = {"kind": kind, "name": "s", "valuesKey": "b.yaml"}
    obj = made("HelmRelease", valuesFrom=[there, {"kind": kind, "name": "s", **fields}])
    data = {"b.yaml": "x: 1", "c.bin": "x"}

    told = await hints(
        obj, made("HelmRepository", "charts"), secrets={"s": data}, config_maps={"s": data}
    )

    line = f"spec.valuesFrom[1]: {kind} 'apps/s' {words}"
    assert told == ((line,) if words else ())


@pytest.mark.parametrize(
    ("obj", "data"),
    [
        (made("GitRepository", secretRef={"name": "s"}), {"username": "u", "password": "p"}),
        (made("GitRepository", secretRef={"name": "s"}), {"bearerToken": "t"}),
        (made("OCIRepository", secretRef={"name": "s"}), {".dockerconfigjson": '{"auths":{}}'}),
        (made("Bucket", secretRef={"name": "s"}), {"accesskey": "a", "secretkey": "b"}),
        (made("HelmRepository", certSecretRef={"name": "s"}), {"ca.crt": "pem"}),
    ],
)
async def test_a_secret_that_will_do_is_not_mentioned(obj: Json, data: dict[str, str]) -> None:
    assert await hints(obj, secrets={"s": data}) == ()


async def test_values_of_a_secret_are_never_told() -> None:
    body = made("GitRepository", secretRef={"name": "s"}, proxySecretRef={"name": "s"})
    data = {"username": "s3cret", "address": "s3cret", "bearerToken": "s3cret"}

    told = await hints(body, secrets={"s": data})

    assert len(told) == 2
    assert "s3cret" not in str(told)


async def test_two_who_build_the_same_are_told() -> None:
    same = {"path": "./apps/", "sourceRef": {"kind": "GitRepository", "name": "apps"}}
    source = made("GitRepository", "apps")
    other = made("Kustomization", "other", **same)

    told = await hints(made("Kustomization", **{**same, "path": "apps"}), source, other)

    assert told == ("spec.sourceRef: Kustomization 'apps/other' builds the same",)


@pytest.mark.parametrize(
    ("own", "others", "what"),
    [
        ("./apps/web", "./apps", "'./apps', of which this is a part"),
        ("./apps/web/", "apps", "'./apps', of which this is a part"),
        ("apps", "./apps/web", "'./apps/web', a part of this"),
        ("./apps", "./apps/./web", "'./apps/web', a part of this"),
        ("./apps", "", ""),
        ("./", "./apps", ""),
        ("./apps/web", "./apps/webs", ""),
        ("./apps/web", "./app", ""),
        ("./infra", "./apps", ""),
        # all paths above one with 500,000 directories have 250 GB together
        (f"./apps{'/x' * 100}", "./apps", ""),
    ],
)
async def test_paths_of_which_one_is_in_the_other_are_told(
    own: str, others: str, what: str
) -> None:
    source = {"sourceRef": {"kind": "GitRepository", "name": "apps"}}
    other = made("Kustomization", "other", **source, path=others)

    told = await hints(
        made("Kustomization", **source, path=own), made("GitRepository", "apps"), other
    )

    expected = f"spec.sourceRef: Kustomization 'apps/other' builds {what}"
    assert told == ((expected,) if what else ())


async def test_who_may_not_get_the_other_hears_nothing_of_its_path() -> None:
    source = {"sourceRef": {"kind": "GitRepository", "name": "apps"}}
    other = made("Kustomization", "other", **source, path="./apps")
    own = FakeAuthorizer()
    own.allow("alice", "get", "gitrepositories", "apps")

    assert await hints(made("Kustomization", **source, path="./apps/x"), other, authorize=own) == (
        "spec.sourceRef: GitRepository 'apps/apps' does not exist",
    )


async def test_a_kustomization_that_went_elsewhere_is_not_told_any_more() -> None:
    source = {"sourceRef": {"kind": "GitRepository", "name": "apps"}}
    other = made("Kustomization", "other", **source, path="./apps")
    cluster = FakeCluster([other])
    plugin = Hints.make(admission.services(cluster=cluster, authorize=everything()))

    async def told() -> list[str]:
        asked = admission.request(made("Kustomization", **source, path="./apps/x"))
        lines = (await admission.admitted(plugin, asked)).warnings
        return [line for line in lines if "builds" in line]

    assert len(await told()) == 1
    cluster.put(made("Kustomization", "other", **source, path="./infra"))
    assert await told() == []
    cluster.put(other)
    assert len(await told()) == 1
    cluster.remove(other)
    assert await told() == []


@pytest.mark.parametrize(
    "different",
    [
        {"path": "x"},
        {"targetNamespace": "x"},
        {"namePrefix": "x-"},
        {"postBuild": {"substitute": {"a": "b"}}},
        {"kubeConfig": {"secretRef": {"name": "remote"}}},
    ],
)
async def test_two_who_build_differently_are_not_told(different: Json) -> None:
    other = made("Kustomization", "other", **different)

    assert await hints(made("Kustomization"), made("GitRepository", "apps"), other) == ()


@pytest.mark.parametrize(
    "different",
    [
        {"targetNamespace": "x"},
        {"namePrefix": "x-"},
        {"postBuild": {"substitute": {"a": "b"}}},
        {"kubeConfig": {"secretRef": {"name": "remote"}}},
        {"sourceRef": {"kind": "GitRepository", "name": "more"}},
    ],
)
async def test_other_objects_of_a_path_above_are_not_told(different: Json) -> None:
    other = made("Kustomization", "other", **{"path": "./apps", **different})
    own = made("Kustomization", path="./apps/web")

    assert await hints(own, made("GitRepository", "apps"), other) == ()


async def test_an_object_is_not_its_own_double() -> None:
    body = made("Kustomization")

    changed = {**body, "spec": {**body["spec"], "suspend": True}}

    assert await hints(changed, body, made("GitRepository", "apps"), old=body) == ()


async def test_a_double_that_is_gone_is_not_told() -> None:
    cluster = FakeCluster([other := made("Kustomization", "other")])
    plugin = Hints.make(admission.services(cluster=cluster, authorize=everything()))
    cluster.put(made("GitRepository", "apps"))
    cluster.remove(other)

    answer = await admission.admitted(plugin, admission.request(made("Kustomization")))

    assert answer.warnings == ()


async def test_appliers_are_told_nothing() -> None:
    assert await hints(made("Kustomization"), extra=APPLIER) == ()


async def test_an_error_is_silence() -> None:
    broken = FakeAuthorizer()
    broken.fail(TransientError("no answer"))

    assert await hints(made("Kustomization"), authorize=broken) == ()


async def test_kinds_of_the_cluster_get_no_hints() -> None:
    assert await hints(made("SourcePolicy")) == ()


def test_hints_never_stand_in_the_way() -> None:
    assert ROW.fail_open
    assert ROW.timeout <= 3
