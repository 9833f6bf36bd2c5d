"""What ``create secret`` and ``create tenant`` print."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization

from cli.__main__ import main


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ca.crt", "tls.crt", "tls.key", "key.pem", "known_hosts"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "policy.json").write_text('{"version": "1.0", "trustPolicies": [{}]}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    capsys.readouterr()
    code = main(["create", *words, "--export", "-n", "apps", "--kubeconfig=/nowhere"])
    said = capsys.readouterr()
    assert code == 0, said.err
    return list(yaml.safe_load_all(said.out))


_USER = ("--username=me", "--password=hush")


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (
            ("git", "--url=https://x/y", *_USER, "--ca-file=ca.crt"),
            {"username": "me", "password": "hush", "ca.crt": "ca.crt\n"},
        ),
        (("git", "--url=https://x/y", "--bearer-token=t"), {"bearerToken": "t"}),
        (
            ("helm", *_USER, "--cert-file=tls.crt", "--key-file=tls.key"),
            {
                "username": "me",
                "password": "hush",
                "tls.crt": "tls.crt\n",
                "tls.key": "tls.key\n",
            },
        ),
        (("tls", "--ca-file=ca.crt"), {"ca.crt": "ca.crt\n"}),
        (("proxy", "--address=https://proxy", *_USER), {"address": "https://proxy"}),
        (
            ("githubapp", "--app-id=1", "--app-installation-id=2", "--app-private-key=key.pem"),
            {
                "githubAppID": "1",
                "githubAppInstallationID": "2",
                "githubAppPrivateKey": "key.pem\n",
            },
        ),
        (
            ("notation", "--trust-policy-file=policy.json", "--ca-cert-file=ca.crt"),
            {
                "trustpolicy.json": '{"version": "1.0", "trustPolicies": [{}]}',
                "ca.crt": "ca.crt\n",
            },
        ),
    ],
)
def test_a_secret_holds_what_sources_read(
    files: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], data: dict[str, str]
) -> None:
    del files

    (found,) = printed(capsys, "secret", words[0], "auth", *words[1:], "--label=a=b")

    assert found["metadata"] == {"name": "auth", "namespace": "apps", "labels": {"a": "b"}}
    assert data.items() <= found["stringData"].items()


def test_a_registrys_secret_is_one_that_pods_pull_with(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = printed(capsys, "secret", "oci", "auth", "--url=ghcr.io", *_USER)

    assert found["type"] == "kubernetes.io/dockerconfigjson"
    assert json.loads(found["stringData"][".dockerconfigjson"]) == {
        "auths": {"ghcr.io": {"username": "me", "password": "hush", "auth": "bWU6aHVzaA=="}}
    }


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        (("rsa", "--ssh-rsa-bits=2048"), "ssh-rsa"),
        (("ecdsa", "--ssh-ecdsa-curve=p521"), "ecdsa-sha2-nistp521"),
        (("ed25519",), "ssh-ed25519"),
    ],
)
def test_a_key_is_made_for_ssh(
    files: Path, capsys: pytest.CaptureFixture[str], algorithm: tuple[str, ...], kind: str
) -> None:
    del files
    words = ("--url=ssh://git@x/y", f"--ssh-key-algorithm={algorithm[0]}", *algorithm[1:])

    (found,) = printed(capsys, "secret", "git", "auth", *words, "--known-hosts-file=known_hosts")

    data = found["stringData"]
    key = serialization.load_ssh_private_key(data["identity"].encode(), None)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    assert public.decode() == data["identity.pub"].strip()
    assert data["identity.pub"].startswith(kind)
    assert data["known_hosts"] == "known_hosts\n"


def test_a_given_key_is_kept(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("secret", "git", "auth", "--url=ssh://git@x/y", "--known-hosts-file=known_hosts")
    (made,) = printed(capsys, *words)
    (files / "id").write_text(made["stringData"]["identity"])

    (found,) = printed(capsys, *words, "--private-key-file=id")

    assert found["stringData"] == made["stringData"]


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("git", "--url=https://x/y"), "--username and --password, or --bearer-token"),
        (("git", "--url=https://x/y", "--username=a"), "are needed together"),
        (("git", "--url=https://x/y", *_USER, "--bearer-token=t"), "replaces --username"),
        (("git", "--url=ssh://x/y"), "--known-hosts-file"),
        (("git", "--url=ssh://x/y", "--ca-file=ca.crt"), "does not go with SSH"),
        (
            (
                *("git", "--url=ssh://x/y", "--known-hosts-file=known_hosts"),
                "--private-key-file=key.pem",
            ),
            "holds no SSH key",
        ),
        (("helm",), "would be empty"),
        (("tls", "--cert-file=tls.crt"), "--cert-file and --key-file"),
        (("tls", "--ca-file=nowhere"), "cannot read nowhere"),
        (("proxy", "--address=proxy"), "must begin with http://"),
        (("oci", "--url=https://ghcr.io", *_USER), "such as ghcr.io/org"),
        (("githubapp", "--app-id=1", "--app-private-key=key.pem"), "--app-installation-id"),
        (("notation", "--trust-policy-file=ca.crt", "--ca-cert-file=ca.crt"), "is not JSON"),
        (
            ("notation", "--trust-policy-file=policy.json", "--ca-cert-file=key"),
            "must end with .crt",
        ),
    ],
)
def test_what_is_missing_is_named(
    files: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], remedy: str
) -> None:
    del files

    assert main(["create", "secret", words[0], "auth", *words[1:], "--export"]) == 1

    said = capsys.readouterr()
    assert remedy in said.err
    assert said.out == ""


def test_a_tenant_is_an_account_in_each_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--with-namespace=front", "--with-namespace=back", "--cluster-role=edit")

    found = printed(capsys, "tenant", "dev", *words)

    assert [(obj["kind"], obj["metadata"]["name"]) for obj in found] == [
        ("Namespace", "front"),
        ("ServiceAccount", "dev"),
        ("RoleBinding", "dev-reconciler"),
        ("Namespace", "back"),
        ("ServiceAccount", "dev"),
        ("RoleBinding", "dev-reconciler"),
    ]
    assert all(obj["metadata"]["labels"] == {"toolkit.fluxcd.io/tenant": "dev"} for obj in found)
    assert found[2]["roleRef"]["name"] == "edit"
    assert [subject["name"] for subject in found[2]["subjects"]] == ["gotk:front:reconciler", "dev"]


def test_a_tenant_may_take_namespaces_and_accounts_that_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--with-namespace=front", "--skip-namespace", "--with-service-account=bot")

    found = printed(capsys, "tenant", "dev", *words)

    assert [obj["kind"] for obj in found] == ["ServiceAccount", "RoleBinding"]
    assert found[0]["metadata"]["name"] == "bot"


def test_a_tenants_name_is_one_of_kubernetes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["create", "tenant", "Dev_Team", "--with-namespace=x", "--export"]) == 1

    assert "'Dev_Team' is not a name" in capsys.readouterr().err
