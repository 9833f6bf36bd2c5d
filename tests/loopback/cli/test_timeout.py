"""Every command obeys ``--timeout``: against a server that accepts and never answers.

A command that takes the option and has no row here fails the first test.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from cli.__main__ import main, penstock

SECONDS = 0.1
PATIENCE = 5.0
"""Far less than one attempt of a request takes without the option."""

_NAMED = "web"
_ROWS: dict[str, Sequence[str]] = {
    # words of a command, or of the group that it is in: its arguments
    "get": (),
    "tree": (_NAMED,),
    "trace": ("ks/web",),
    "events": (),
    "stats": (),
    "debug": (_NAMED, "--show-status"),
    "logs": (),
    "build kustomization": (_NAMED, "--path", "{files}"),
    "diff artifact": ("oci://{server}/a:v1", "-f", "{files}", "--insecure-registry"),
    "diff helmrelease": (_NAMED,),
    "diff inventory": (_NAMED,),
    "diff kustomization": (_NAMED, "--path", "{files}"),
    "preview automation": (_NAMED,),
    "check": (),
    "check cluster": (),
    "check repository": ("http://{server}/fleet.git", "--allow-insecure-http"),
    "push artifact": (
        *("oci://{server}/a:v1", "-f", "{files}", "--source", "x", "--revision", "x"),
        "--insecure-registry",
    ),
    "pull artifact": ("oci://{server}/a:v1", "-o", "{files}", "--insecure-registry"),
    "tag artifact": ("oci://{server}/a:v1", "--tag", "v2", "--insecure-registry"),
    "list artifacts": ("oci://{server}/a", "--insecure-registry"),
    "apply": ("-f", "{files}/cm.yaml"),
    "secrets": (),
    "create alert": (_NAMED, "--provider-ref", "x", "--event-source", "Kustomization/*"),
    "create alert-provider": (_NAMED, "--type", "generic", "--address", "https://example.com"),
    "create helmrelease": (_NAMED, "--source", "HelmRepository/x", "--chart", "x"),
    "create image policy": (_NAMED, "--image-ref", "x", "--select-semver", "*"),
    "create image repository": (_NAMED, "--image", "ghcr.io/x/y"),
    "create image update": (
        *(_NAMED, "--git-repo-ref", "x", "--author-name", "x", "--author-email", "x@example.com"),
        *("--checkout-branch", "main"),
    ),
    "create kustomization": (_NAMED, "--source", "GitRepository/x"),
    "create receiver": (
        *(_NAMED, "--type", "github", "--event", "push", "--resource", "GitRepository/x"),
        *("--secret-ref", "x"),
    ),
    "create secret git": (_NAMED, "--url", "https://example.com", "--username", "x", "-p", "x"),
    "create secret githubapp": (
        *(_NAMED, "--app-id", "1", "--app-private-key", "{files}/key.pem"),
        *("--app-installation-id", "1"),
    ),
    "create secret helm": (_NAMED, "--username", "x", "--password", "x"),
    "create secret notation": (
        *(_NAMED, "--trust-policy-file", "{files}/policy.json"),
        *("--ca-cert-file", "{files}/ca.crt"),
    ),
    "create secret oci": (_NAMED, "--url", "ghcr.io", "--username", "x", "--password", "x"),
    "create secret proxy": (_NAMED, "--address", "https://example.com"),
    "create secret receiver": (_NAMED, "--type", "github", "--hostname", "example.com"),
    "create secret tls": (_NAMED, "--ca-crt-file", "{files}/ca.crt"),
    "create source bucket": (_NAMED, "--bucket-name", "x", "--endpoint", "s3.example.com"),
    "create source git": (_NAMED, "--url", "https://example.com/x", "--branch", "main"),
    "create source helm": (_NAMED, "--url", "https://example.com"),
    "create source helmchart": (_NAMED, "--source", "HelmRepository/x", "--chart", "x"),
    "create source oci": (_NAMED, "--url", "oci://ghcr.io/x/y", "--tag", "v1"),
    "create tenant": (_NAMED, "--with-namespace", "x"),
    "export": (_NAMED,),
    "delete": (_NAMED, "--silent"),
    "reconcile": (_NAMED,),
    "suspend": (_NAMED,),
    "resume": (_NAMED,),
    "trigger receiver": (_NAMED,),
    "bootstrap git": ("--url", "https://example.com/fleet", "--username", "x", "--password", "x"),
    "bootstrap": ("--owner", "x", "--repository", "x"),
    "bootstrap bitbucket-server": (
        *("--owner", "x", "--repository", "x", "--hostname", "example.com", "--username", "x"),
    ),
    "install": (),
    "uninstall": ("--silent",),
    "migrate": (),
    "version": (),
}
_POLICY = {
    "version": "1.0",
    "trustPolicies": [
        {
            "name": "x",
            "registryScopes": ["*"],
            "signatureVerification": {"level": "strict"},
            "trustStores": ["ca:x"],
            "trustedIdentities": ["*"],
        }
    ],
}
_VARIANTS = (
    "get kustomizations --watch",
    "get all --watch",
    "events --watch",
    "logs --follow",
    "migrate --from-flux",
    "check --pre",
    "uninstall --dry-run",
    "trigger receiver web --token x --address http://{server}",
)
"""Options with which a command waits for other things."""


def commands() -> list[str]:
    """Return the words of every command that has the option."""
    return [words for words, found in _walk("", penstock) if _has_timeout(found)]


def _walk(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group) or _has_timeout(command):
        yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _walk(f"{words} {name}".strip(), below)


def _has_timeout(command: click.Command) -> bool:
    return any(option.name == "timeout" for option in command.params)


def arguments(words: str) -> Sequence[str] | None:
    parts = words.split()
    prefixes = (" ".join(parts[:size]) for size in range(len(parts), 0, -1))
    return next((_ROWS[prefix] for prefix in prefixes if prefix in _ROWS), None)


def test_every_command_with_the_option_has_a_row() -> None:
    assert [words for words in commands() if arguments(words) is None] == []


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """Return the address of a server that accepts connections and never answers."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(listening.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        host, port = listening.getsockname()
        yield f"{host}:{port}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
    for each in held:
        each.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "cm.yaml").write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}\n")
    (folder / "policy.json").write_text(json.dumps(_POLICY))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form, plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    trustme.CA().cert_pem.write_to_path(str(folder / "ca.crt"))
    return folder


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for variable in ("GITHUB_TOKEN", "GITLAB_TOKEN", "GITEA_TOKEN", "BITBUCKET_TOKEN"):
        monkeypatch.setenv(variable, "x")


@pytest.mark.parametrize("words", [*commands(), *_VARIANTS])
def test_command_ends_in_time(
    words: str, silent: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = () if words in _VARIANTS else arguments(words) or ()
    argv = [word.format(server=silent, files=files) for word in (*words.split(), *rest)]
    began = time.monotonic()

    code = main([*argv, f"--server=http://{silent}", "--timeout", f"{SECONDS * 1000:.0f}ms"])

    took, told = time.monotonic() - began, capsys.readouterr().err
    assert took < PATIENCE, told
    assert code != 0
    assert f"within {SECONDS:g}s" in told or "in time" in told, told
