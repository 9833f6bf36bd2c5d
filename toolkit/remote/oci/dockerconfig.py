"""Logins from docker's ``config.json`` in image pull Secrets.

The entry for a repository is chosen by the kubelet's rules (Kubernetes: "Interpretation of
config.json"): a key is a host, with optional port, scheme and path; ``*`` matches a part of one
label of the host name; the most specific entry wins. Paths are compared by whole segments, so that
a login for ``host/team`` is not sent for ``host/team-two``.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final, TypeVar

import msgspec

from toolkit import untrusted
from toolkit.remote.http.http import AuthError, Endpoint
from toolkit.remote.oci.oci import Repository

CONFIG_JSON: Final = ".dockerconfigjson"
"""Key in a Secret of type ``kubernetes.io/dockerconfigjson``."""
DOCKERCFG: Final = ".dockercfg"
"""Key in a Secret of type ``kubernetes.io/dockercfg``, which has the entries alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The content of an entry: name and password, or a token of either kind."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    identity_token: str | None = field(default=None, repr=False)
    registry_token: str | None = field(default=None, repr=False)

    def on(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with this login."""
        return replace(
            endpoint,
            username=self.username,
            password=self.password,
            identity_token=self.identity_token,
            bearer_token=self.registry_token,
        )


def login(secrets: Iterable[Mapping[str, bytes]], repository: Repository) -> Login | None:
    """Return the login for a repository; of equally specific ones the first.

    Raises:
        AuthError: a Secret holds no readable config.json, or an entry that counts is malformed.
    """
    best: tuple[tuple[int, int, int], _Entry] | None = None
    for data in secrets:
        for key, entry in _entries(data):
            rank = _rank(key, repository)
            if rank is not None and (best is None or rank > best[0]):
                best = rank, entry
    return _login(best[1]) if best else None


_HUB: Final = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_MAX_CONFIG: Final = 1 << 20
_IDENTITY_USER: Final = "<token>"
_T = TypeVar("_T")


class _Entry(msgspec.Struct):
    """One entry of ``auths``."""

    auth: str | None = None
    username: str | None = None
    password: str | None = None
    identitytoken: str | None = None
    registrytoken: str | None = None


class _Config(msgspec.Struct):
    auths: dict[str, _Entry] | None = None


def _entries(data: Mapping[str, bytes]) -> Iterator[tuple[str, _Entry]]:
    if CONFIG_JSON in data:
        found = _decode(data[CONFIG_JSON], _Config, CONFIG_JSON).auths
    elif DOCKERCFG in data:
        found = _decode(data[DOCKERCFG], dict[str, _Entry], DOCKERCFG)
    else:
        raise AuthError(
            f"the secret has no '{CONFIG_JSON}': make it with "
            "`kubectl create secret docker-registry`"
        )
    yield from (found or {}).items()


def _decode(data: bytes, kind: type[_T], key: str) -> _T:
    try:
        return untrusted.load_json(data, kind, size=_MAX_CONFIG)
    except untrusted.UntrustedError as exc:
        raise AuthError(f"'{key}' in the secret is not a docker config.json: {exc}") from exc


def _rank(key: str, repository: Repository) -> tuple[int, int, int] | None:
    """Return how specific a key is for a repository; None if it does not match."""
    scheme, separator, rest = key.strip().partition("://")
    host, _, path = (rest if separator else scheme).partition("/")
    if not _same_host(host.lower(), repository.registry):
        return None
    segments = [segment for segment in path.split("/") if segment]
    if segments[:1] in (["v1"], ["v2"]):
        segments = segments[1:]
    if repository.name.split("/")[: len(segments)] != segments:
        return None
    return len(segments), int("*" not in host), len(host)


def _same_host(pattern: str, registry: str) -> bool:
    if registry in _HUB:
        return pattern in _HUB
    name, _, port = pattern.partition(":")
    wanted_name, _, wanted_port = registry.partition(":")
    if registry.startswith("["):
        return pattern == registry
    labels, wanted = name.split("."), wanted_name.split(".")
    return (
        port == wanted_port
        and len(labels) == len(wanted)
        and all(_fits(have, label) for label, have in zip(labels, wanted, strict=True))
    )


def _fits(label: str, pattern: str) -> bool:
    # A bracket would be a character set for fnmatch, and is not valid in a host name.
    return "[" not in pattern and fnmatchcase(label, pattern)


def _login(entry: _Entry) -> Login:
    username, password = entry.username, entry.password
    if entry.auth:
        username, password = _decoded(entry.auth)
    if entry.identitytoken or username == _IDENTITY_USER:
        return Login(identity_token=entry.identitytoken or password)
    if entry.registrytoken:
        return Login(registry_token=entry.registrytoken)
    if not username and not password:
        raise AuthError("the secret's entry for the registry holds neither a login nor a token")
    return Login(username=username or "", password=password or "")


def _decoded(auth: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(auth.strip(), validate=True).decode()
    except ValueError:
        text = ""
    username, separator, password = text.partition(":")
    if not separator:
        raise AuthError("'auth' in the secret's entry is not a user and a password in base64")
    return username, password.rstrip("\0\r\n")
