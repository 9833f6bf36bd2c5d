"""Apply connection flags to the kubeconfig, as ``kubectl`` and ``flux`` do."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from cli import errors
from cli.connection import Connection
from toolkit.kube import config
from toolkit.kube import errors as kube_errors
from toolkit.kube.client import Client


def cluster(connection: Connection) -> config.ClusterConfig:
    """Return the API server and the credentials.

    Raises:
        KubeConfigError: the kubeconfig cannot be read.
        UsageError: a file that a flag names cannot be read.
    """
    given = {name: values[-1] for name, values in connection.flags.items()}
    fields: dict[str, Any] = {}
    for name, (where, read) in _FIELDS.items():
        if name in given:
            fields[where] = read(given[name])
    return replace(_configured(connection, given), **fields)


def acting(api: Client, connection: Connection) -> Client:
    """Return a client that acts as the user of ``--as``."""
    extra: dict[str, list[str]] = {}
    for pair in connection.flags.get("--as-user-extra", ()):
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise errors.UsageError(f"--as-user-extra must be KEY=VALUE, and {pair!r} is not")
        extra.setdefault(key, []).append(value)
    uid = connection.flags.get("--as-uid", ("",))[-1]
    return api.impersonating(connection.user, groups=connection.groups, extra=extra, uid=uid)


def _configured(connection: Connection, given: Mapping[str, str]) -> config.ClusterConfig:
    """Return the settings of the kubeconfig; without one, ``--server`` is enough."""
    try:
        return config.from_environment(
            connection.kubeconfig,
            context=connection.context,
            cluster=given.get("--cluster", ""),
            user=given.get("--user", ""),
        )
    except kube_errors.KubeConfigError:
        if "--server" not in given or connection.kubeconfig or connection.context:
            raise
        return config.ClusterConfig(server="")


def _token(value: str) -> Callable[[], str]:
    return lambda: value


def _content(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as exc:
        raise errors.UsageError(f"{name} cannot be read: {exc.strerror}") from exc


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = MappingProxyType(
    {
        "--server": ("server", lambda value: value.rstrip("/")),
        "--tls-server-name": ("tls_server_name", str),
        "--certificate-authority": ("ca", _content),
        "--insecure-skip-tls-verify": ("insecure_skip_tls_verify", lambda _: True),
        "--token": ("token", _token),
        "--client-certificate": ("client_cert", _content),
        "--client-key": ("client_key", _content),
        "--proxy-url": ("proxy", str),
    }
)
"""The field of ``ClusterConfig`` that a flag sets, and how its value is read."""
