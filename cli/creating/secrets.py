"""The flags for Secrets, one row each: ``flux create secret git|helm|oci|tls|proxy|…``."""

import base64
import json
import re
import secrets as entropy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args
from urllib.parse import urlsplit

import click

from cli import errors
from cli.creating import flags, keypairs
from cli.creating.flags import Flag, Values
from crds import RECEIVER
from crds.notification_receiver import ReceiverType
from toolkit.objects import Json, key_of

DOCKER: Final = "kubernetes.io/dockerconfigjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRow:
    """A subcommand, the purpose of the Secret, its flags, and its data."""

    word: str
    purpose: str
    example: str
    flags: tuple[Flag, ...]
    data: Callable[[Values], dict[str, str]]
    type: str = ""
    finish: Callable[[Values, Json], None] | None = None
    """Sets parts of the Secret that depend on its name and namespace."""


def _git(values: Values) -> dict[str, str]:
    found = keypairs.git(values)
    if not found.keys() & {"identity", "password", "bearerToken"}:
        raise errors.UsageError(
            "a repository over HTTP needs --username and --password, or --bearer-token"
        )
    return found


def _helm(values: Values) -> dict[str, str]:
    return _some({**keypairs.basic(values), **keypairs.tls(values)}, "--username, --ca-file")


def _tls(values: Values) -> dict[str, str]:
    return _some(keypairs.tls(values), "--cert-file and --key-file, or --ca-file")


def _some(found: dict[str, str], flags_: str) -> dict[str, str]:
    if not found:
        raise errors.UsageError(f"the Secret would be empty: give {flags_}")
    return found


def _oci(values: Values) -> dict[str, str]:
    text = values["url"].removeprefix("oci://")
    if not text or "://" in text:
        raise errors.UsageError(
            f"--url: {values['url']!r} must be a registry or a repository, such as ghcr.io/org"
        )
    return {".dockerconfigjson": docker_config(text, values["username"], values["password"])}


def docker_config(place: str, user: str, password: str) -> str:
    """Return docker's ``config.json`` with the login at a registry, or at a repository of it."""
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    entry = {"username": user, "password": password, "auth": auth}
    return json.dumps({"auths": {place: entry}}, separators=(",", ":"))


def _proxy(values: Values) -> dict[str, str]:
    if urlsplit(values["address"]).scheme not in ("http", "https"):
        raise errors.UsageError(
            f"--address: {values['address']!r} must begin with http:// or https://"
        )
    return {"address": values["address"], **keypairs.basic(values)}


def _github_app(values: Values) -> dict[str, str]:
    if not (values.get("app_installation_id") or values.get("app_installation_owner")):
        raise errors.UsageError("name the installation with --app-installation-id or -owner")
    found = {
        "githubAppID": values["app_id"],
        "githubAppInstallationID": values.get("app_installation_id"),
        "githubAppInstallationOwner": values.get("app_installation_owner"),
        "githubAppBaseURL": values.get("app_base_url"),
        "githubAppPrivateKey": keypairs.read(values, "app_private_key"),
    }
    return {key: value for key, value in found.items() if value}


def _notation(values: Values) -> dict[str, str]:
    policy = keypairs.read(values, "trust_policy_file")
    try:
        document = json.loads(policy)
    except (ValueError, RecursionError) as exc:
        raise errors.UsageError(
            f"--trust-policy-file: {values['trust_policy_file']} is not JSON: {exc}"
        ) from exc
    if not (isinstance(document, dict) and document.get("trustPolicies")):
        raise errors.UsageError(
            f"--trust-policy-file: {values['trust_policy_file']} has no trustPolicies"
        )
    found = {"trustpolicy.json": policy}
    for name in flags.words(values["ca_cert_file"]):
        if not name.endswith((".crt", ".pem")):
            raise errors.UsageError(f"--ca-cert-file: {name} must end with .crt or .pem")
        found[Path(name).name] = keypairs.read({"ca_cert_file": name}, "ca_cert_file")
    return found


def _receiver(values: Values) -> dict[str, str]:
    if not _HOST.fullmatch(values["hostname"]):
        raise errors.UsageError(
            f"--hostname: {values['hostname']!r} must be a host without scheme and path, such as "
            "hooks.example.com"
        )
    claims = {"email": values.get("email_claim"), "audience": values.get("audience_claim")}
    if values["type"] != _GCR and any(claims.values()):
        raise errors.UsageError(f"--email-claim and --audience-claim are for --type={_GCR}")
    if values["type"] == _GCR and not claims["email"]:
        raise errors.UsageError(f"--email-claim is required for --type={_GCR}")
    token = values.get("token") or entropy.token_hex(_TOKEN_BYTES)
    return {"token": token, **{key: value for key, value in claims.items() if value}}


def _address(values: Values, secret: Json) -> None:
    # aiohttp, which help does not need
    from controllers.notification.receiving import senders  # noqa: PLC0415

    data, key = secret["stringData"], key_of(secret)
    path = senders.path(data["token"].encode(), key.name, key.namespace)
    url = f"https://{values['hostname']}{path}"
    secret["metadata"]["annotations"] = {f"{RECEIVER.group}/webhook": url}
    if values["type"] == _GCR:
        data.setdefault("audience", url)


_GCR: Final = "gcr"
_OIDC: Final = "generic-oidc"
"""Its senders have a token of their issuer."""
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+(:[0-9]+)?")
_TOKEN_BYTES: Final = 32
_REQUIRED_USER: Final = (
    Flag(name="username", short="u", required=True, help="User name for basic authentication."),
    Flag(name="password", short="p", required=True, help="Password for basic authentication."),
)

ROWS: Final = (
    SecretRow(
        word="git",
        purpose="for a Git repository: a user over HTTP, a key over SSH",
        example="""penstock create secret git podinfo-auth --url=ssh://git@github.com/org/podinfo \\
  --ssh-key-algorithm=ecdsa --ssh-ecdsa-curve=p521 --known-hosts-file=./known_hosts""",
        flags=(
            Flag(name="url", required=True, help="Address, such as ssh://git@host/org/repo."),
            flags.USERNAME,
            flags.PASSWORD,
            Flag(name="bearer-token", help="Bearer token, instead of a user name and password."),
            flags.CA_FILE,
            *flags.SSH,
        ),
        data=_git,
    ),
    SecretRow(
        word="helm",
        purpose="for a Helm repository: a user, TLS certificates",
        example="""penstock create secret helm repo-auth --username=me --password=secret \\
  --export > repo-auth.yaml""",
        flags=(
            flags.USERNAME,
            flags.PASSWORD,
            flags.CERT_FILE,
            flags.KEY_FILE,
            flags.CA_FILE,
        ),
        data=_helm,
    ),
    SecretRow(
        word="oci",
        purpose="for a container registry, of the type that Pods pull with",
        example="""penstock create secret oci podinfo-auth --url=ghcr.io \\
  --username=me --password=secret --export > podinfo-auth.yaml""",
        flags=(
            Flag(name="url", required=True, help="Registry or repository, such as ghcr.io/org."),
            *_REQUIRED_USER,
        ),
        data=_oci,
        type=DOCKER,
    ),
    SecretRow(
        word="tls",
        purpose="with TLS certificates",
        example="""penstock create secret tls certs --cert-file=./client.crt \\
  --key-file=./client.key --ca-file=./ca.crt --export > certs.yaml""",
        flags=(flags.CERT_FILE, flags.KEY_FILE, flags.CA_FILE),
        data=_tls,
    ),
    SecretRow(
        word="proxy",
        purpose="with the address of a proxy, and a user for it",
        example="""penstock create secret proxy my-proxy --address=https://proxy.example.com \\
  --username=me --password=secret --export > proxy.yaml""",
        flags=(
            Flag(name="address", required=True, help="Address of the proxy."),
            flags.USERNAME,
            flags.PASSWORD,
        ),
        data=_proxy,
    ),
    SecretRow(
        word="githubapp",
        purpose="for a repository on GitHub, as a GitHub App",
        example="""penstock create secret githubapp podinfo-auth --app-id=1 \\
  --app-installation-id=2 --app-private-key=./key.pem --export > githubapp-auth.yaml""",
        flags=(
            Flag(name="app-id", required=True, help="ID of the App."),
            Flag(name="app-installation-id", help="ID of the App's installation."),
            Flag(
                name="app-installation-owner", help="User or organization that installed the App."
            ),
            Flag(
                name="app-private-key",
                required=True,
                type=click.Path(),
                help="File with the App's private key.",
            ),
            Flag(name="app-base-url", help="Address of GitHub's API, for Enterprise Server."),
        ),
        data=_github_app,
    ),
    SecretRow(
        word="notation",
        purpose="with a trust policy and certificates of Notation",
        example="""penstock create secret notation trust --trust-policy-file=./trustpolicy.json \\
  --ca-cert-file=./ca.crt --export > trust.yaml""",
        flags=(
            Flag(
                name="trust-policy-file",
                required=True,
                type=click.Path(),
                help="File with the trust policy.",
            ),
            Flag(
                name="ca-cert-file",
                required=True,
                several=True,
                help="Files with certificates, ending with .crt or .pem.",
            ),
        ),
        data=_notation,
    ),
    SecretRow(
        word="receiver",
        purpose="with the token of a Receiver's senders, and its address as an annotation",
        example="""penstock create secret receiver github-hook --type=github \\
  --hostname=hooks.example.com --export > hook.yaml""",
        flags=(
            Flag(
                name="type",
                required=True,
                type=click.Choice([each for each in get_args(ReceiverType) if each != _OIDC]),
                help="Type of the sender, such as github.",
            ),
            Flag(
                name="hostname",
                required=True,
                help="Host of the Receivers, such as hooks.example.com.",
            ),
            Flag(name="token", help="Token that senders share; default is a random one."),
            Flag(
                name="email-claim", help="Email address of the service account that signs, for gcr."
            ),
            Flag(
                name="audience-claim",
                help="Audience of Google's tokens, for gcr; default is the address.",
            ),
        ),
        data=_receiver,
        finish=_address,
    ),
)
