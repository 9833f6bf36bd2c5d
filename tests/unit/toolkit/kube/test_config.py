"""Kubeconfigs: ours may name files, a tenant's may not do anything but say where and who."""

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolkit.kube import config
from toolkit.kube.errors import KubeConfigError


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def kubeconfig(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> str:
    return yaml.safe_dump(
        {
            "current-context": "here",
            "contexts": [
                {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
                {"name": "bare", "context": {"cluster": "c"}},
            ],
            "clusters": [
                {"name": "c", "cluster": {"server": "https://example.com:6443/"} | (cluster or {})}
            ],
            "users": [{"name": "u", "user": user or {}}],
        }
    )


def test_embedded_credentials_are_read() -> None:
    text = kubeconfig(
        {"certificate-authority-data": encoded("ca"), "tls-server-name": "other"},
        {"client-certificate-data": encoded("cert"), "client-key-data": encoded("key")},
    )

    result = config.from_untrusted_kubeconfig(text)

    assert result.server == "https://example.com:6443"
    assert (result.ca, result.client_cert, result.client_key) == (b"ca", b"cert", b"key")
    assert (result.namespace, result.tls_server_name) == ("team", "other")


@pytest.mark.parametrize(
    ("cluster", "user", "named"),
    [
        ({}, {"exec": {"command": "sh"}}, "exec"),
        ({}, {"auth-provider": {"name": "gcp"}}, "auth-provider"),
        ({}, {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}, "tokenFile"),
        ({}, {"client-certificate": "/etc/cert"}, "client-certificate"),
        ({}, {"client-key": "/etc/key"}, "client-key"),
        ({"certificate-authority": "/etc/ca"}, {}, "certificate-authority"),
        ({"insecure-skip-tls-verify": True}, {}, "verify"),
        ({"server": "http://example.com"}, {}, "https"),
    ],
)
def test_a_tenant_s_kubeconfig_may_not(
    cluster: dict[str, Any], user: dict[str, Any], named: str
) -> None:
    with pytest.raises(KubeConfigError, match=named):
        config.from_untrusted_kubeconfig(kubeconfig(cluster, user))


def test_a_kubeconfig_without_a_folder_reads_no_file(tmp_path: Path) -> None:
    """The fields that name files are refused by their names; whatever passes that reads nothing."""
    (tmp_path / "key").write_text("secret")

    with pytest.raises(KubeConfigError, match="must not name files"):
        config._Files(None).pem({"client-key": str(tmp_path / "key")}, "client-key")


@pytest.mark.parametrize(
    "text",
    [
        "current-context: " + "[" * 30_000,
        "a: &a [x, x]\nb: &b [*a, *a]\ncurrent-context: [*b, *b]\n",
        "current-context: s3cret\ncontexts: []\n",
        "current-context: [s3cret]\n",
        "current-context: !!python/object:s3cret {}\n",
    ],
)
def test_a_hostile_kubeconfig_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(KubeConfigError, match="kubeconfig") as caught:
        config.from_untrusted_kubeconfig(text)

    assert "s3cret" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("field", ["server", "proxy-url", "tls-server-name"])
def test_a_field_that_is_no_text_is_named(field: str) -> None:
    with pytest.raises(KubeConfigError, match=f"field '{field}' is not a string"):
        config.from_untrusted_kubeconfig(kubeconfig({field: ["https://example.com"]}))


def test_insecure_tls_can_be_allowed() -> None:
    text = kubeconfig({"insecure-skip-tls-verify": True}, {"token": "t"})

    result = config.from_untrusted_kubeconfig(text, allow_insecure_tls=True)

    assert result.insecure_skip_tls_verify


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a list",
        "{",
        "current-context: nowhere",
        "clusters: 7",
        kubeconfig({"certificate-authority-data": "%%%"}),
        kubeconfig().replace("server:", "sever:"),
    ],
)
def test_a_malformed_kubeconfig_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(KubeConfigError, match="kubeconfig"):
        config.from_untrusted_kubeconfig(text)


def test_a_kubeconfig_without_a_server_is_refused() -> None:
    text = kubeconfig().replace("server:", "sever:")

    with pytest.raises(KubeConfigError, match="kubeconfig lacks 'server'"):
        config.from_untrusted_kubeconfig(text, allow_insecure_tls=True)


def test_credentials_do_not_show() -> None:
    text = kubeconfig({}, {"client-key-data": encoded("hunter2"), "token": "hunter2"})

    assert "hunter2" not in repr(config.from_untrusted_kubeconfig(text))


def test_our_own_kubeconfig_may_name_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("ca")
    (tmp_path / "token").write_text("one\n")
    path = tmp_path / "config"
    path.write_text(kubeconfig({"certificate-authority": "ca.crt"}, {"tokenFile": "token"}))

    result = config.from_environment(str(path))

    assert result.ca == b"ca"
    assert result.token
    assert result.token() == "one"
    (tmp_path / "token").write_text("two")
    assert result.token() == "two"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(kubeconfig({"certificate-authority": "absent.crt"}))

    with pytest.raises(KubeConfigError, match=r"absent\.crt"):
        config.from_environment(str(path))


def test_kubeconfig_variable_and_context_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config"
    path.write_text(kubeconfig(user={"token": "secret"}))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/absent:{path}")

    chosen, bare = config.from_environment(), config.from_environment(context="bare")

    assert chosen.token
    assert chosen.namespace == "team"
    assert bare.token is None
    assert bare.namespace == "default"


def test_no_kubeconfig_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))

    with pytest.raises(KubeConfigError, match="absent"):
        config.from_environment()


def test_an_exec_user_is_asked_for_its_token(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    status = '{"token": "from-plugin", "expirationTimestamp": "2099-01-01T00:00:00Z"}'
    credential = (
        '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
        f'"status": {status}}}'
    )
    plugin.write_text(f"#!/bin/sh\necho '{credential}'\n")
    plugin.chmod(0o700)
    path = tmp_path / "config"
    api = "client.authentication.k8s.io/v1"
    user = {"exec": {"apiVersion": api, "command": str(plugin), "interactiveMode": "Never"}}
    path.write_text(kubeconfig(user=user))

    result = config.from_environment(str(path))

    assert result.server == "https://example.com:6443"
    assert result.token
    assert result.token() == "from-plugin"


@pytest.mark.parametrize(
    ("script", "why"),
    [("echo signed out >&2; exit 1", "signed out"), ("echo nonsense", "")],
)
def test_a_program_that_issues_no_credentials_is_an_error_and_not_an_anonymous_user(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str, why: str
) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\n{script}\n")
    plugin.chmod(0o700)
    path = tmp_path / "config"
    api = "client.authentication.k8s.io/v1"
    user = {"exec": {"apiVersion": api, "command": str(plugin), "interactiveMode": "Never"}}
    path.write_text(kubeconfig(user=user))

    with pytest.raises(KubeConfigError, match=f"issued no credentials.*{why}"):
        config.from_environment(str(path))

    assert not capfd.readouterr().err


def test_exec_user_is_refused_where_the_official_client_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in the image.
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    path = tmp_path / "config"
    path.write_text(kubeconfig(user={"exec": {"command": "plugin"}}))

    with pytest.raises(KubeConfigError, match="needs the Python package 'kubernetes'"):
        config.from_environment(str(path))


def test_a_context_that_was_typed_is_told_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(kubeconfig())

    with pytest.raises(KubeConfigError, match="kubeconfig has no context 'nope'"):
        config.from_environment(str(file), context="nope")


def test_a_context_that_the_file_names_and_lacks_is_told_without_its_name(tmp_path: Path) -> None:
    file = tmp_path / "config"
    text = kubeconfig()
    file.write_text(text.replace("contexts:", "others:"))

    with pytest.raises(
        KubeConfigError, match="kubeconfig has a current-context, but no context of that name"
    ):
        config.from_environment(str(file))
