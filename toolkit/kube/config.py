"""The API server and the identity to use: in-cluster account, kubeconfig, or a tenant's kubeconfig.

A kubeconfig from ``spec.kubeConfig`` comes from a tenant. It may neither run programs (``exec``)
nor name files of this container, and may not disable TLS verification. Our own kubeconfig may. Its
``exec`` and OIDC users are handled by the official client, which is imported only then.
"""

import base64
import binascii
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from toolkit import untrusted
from toolkit.kube import errors

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """All that is needed to open a connection. PEM material is bytes, never a path.

    ``token`` is called in a thread and may block: it reads a rotating file or asks a plugin.
    """

    server: str
    ca: bytes | None = None
    client_cert: bytes | None = None
    client_key: bytes | None = field(default=None, repr=False)
    token: Callable[[], str] | None = field(default=None, repr=False)
    namespace: str = "default"
    proxy: str | None = field(default=None, repr=False)
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False


def from_environment(
    kubeconfig: str = "", *, context: str = "", cluster: str = "", user: str = ""
) -> ClusterConfig:
    """Load the given kubeconfig, or the same one as client-go.

    That is the in-cluster account, then ``KUBECONFIG``, then ``~/.kube/config``. ``cluster`` and
    ``user`` name rows of the kubeconfig to use instead of those of the context.

    Raises:
        KubeConfigError: there is no kubeconfig, or it is invalid.
    """
    in_cluster = "KUBERNETES_SERVICE_HOST" in os.environ and (_ACCOUNT / "token").exists()
    if not kubeconfig and in_cluster:
        return _in_cluster()
    path = Path(kubeconfig or _default_kubeconfig()).expanduser()
    try:
        text = path.read_text()
    except OSError as exc:
        raise errors.KubeConfigError(f"cannot read kubeconfig {path}: {exc.strerror}") from exc
    found, login, namespace = _select(text, context, cluster=cluster, user=user)
    files = _Files(path.parent)
    if "exec" in login or "auth-provider" in login:
        if cluster or user:
            raise errors.KubeConfigError(
                f"the user of kubeconfig {path} uses an exec plugin, which works for a whole "
                "context only: choose one with --context instead of --cluster and --user"
            )
        return _from_plugin(path, context, namespace)
    return _build(found, login, namespace, files)


def from_untrusted_kubeconfig(text: str, *, allow_insecure_tls: bool = False) -> ClusterConfig:
    """Load a tenant's kubeconfig: embedded credentials only.

    Raises:
        KubeConfigError: it is malformed, runs a program, names a file, or skips TLS verification.
    """
    cluster, user, namespace = _select(text, "")
    forbidden = {
        "exec": user,
        "auth-provider": user,
        "tokenFile": user,
        "client-certificate": user,
        "client-key": user,
        "certificate-authority": cluster,
    }
    for name, section in forbidden.items():
        if section.get(name):
            raise errors.KubeConfigError(f"kubeconfig field {name!r} is not allowed here")
    plain = not str(cluster.get("server") or "").startswith("https://")
    if not allow_insecure_tls and (plain or cluster.get("insecure-skip-tls-verify")):
        raise errors.KubeConfigError("kubeconfig must use https and verify the server certificate")
    return _build(cluster, user, namespace, _Files(None))


class _Files:
    """Reads ``<name>-data`` (base64), or the file called ``<name>`` when files are allowed."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def pem(self, section: Mapping[str, Any], name: str) -> bytes | None:
        data = section.get(f"{name}-data")
        if data:
            try:
                return base64.b64decode("".join(str(data).split()), validate=True)
            except (binascii.Error, ValueError) as exc:
                raise errors.KubeConfigError(f"kubeconfig field {name}-data is not base64") from exc
        path = section.get(name)
        return self.path(str(path)).read_bytes() if path else None

    def path(self, name: str) -> Path:
        if self._folder is None:
            raise errors.KubeConfigError("kubeconfig must not name files")
        return self._folder / name


def _build(
    cluster: Mapping[str, Any], user: Mapping[str, Any], namespace: str, files: _Files
) -> ClusterConfig:
    try:
        return ClusterConfig(
            server=str(cluster["server"]).rstrip("/"),
            ca=files.pem(cluster, "certificate-authority"),
            client_cert=files.pem(user, "client-certificate"),
            client_key=files.pem(user, "client-key"),
            token=_token(user, files),
            namespace=namespace,
            proxy=cluster.get("proxy-url") or None,
            tls_server_name=str(cluster.get("tls-server-name") or ""),
            insecure_skip_tls_verify=bool(cluster.get("insecure-skip-tls-verify")),
        )
    except KeyError as exc:
        raise errors.KubeConfigError(f"kubeconfig lacks {exc.args[0]!r}") from exc
    except OSError as exc:
        raise errors.KubeConfigError(f"kubeconfig names {exc.filename}: {exc.strerror}") from exc


def _token(user: Mapping[str, Any], files: _Files) -> Callable[[], str] | None:
    # client-go: tokenFile takes precedence over token (tools/clientcmd/api/types.go).
    if user.get("tokenFile"):
        return _file_token(files.path(str(user["tokenFile"])))
    if user.get("token"):
        token = str(user["token"])
        return lambda: token
    return None


def _file_token(path: Path) -> Callable[[], str]:
    def read() -> str:
        return path.read_text().strip()

    return read


def _in_cluster() -> ClusterConfig:
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    return ClusterConfig(
        server=f"https://{host}:{port}",
        ca=(_ACCOUNT / "ca.crt").read_bytes(),
        token=_file_token(_ACCOUNT / "token"),
        namespace=(_ACCOUNT / "namespace").read_text().strip() or "default",
    )


def _default_kubeconfig() -> str:
    # KUBECONFIG may list several files; only the first that exists is read, they are not merged.
    candidates = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    present = [part for part in candidates if Path(part).exists()]
    return (present or candidates or ["~/.kube/config"])[0]


_TEXTS: Final = (
    "cluster",
    "user",
    "namespace",
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "tls-server-name",
    "proxy-url",
    "token",
    "tokenFile",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
)
"""Fields of a context, a cluster or a user that must be strings."""
_BOUNDS: Final = untrusted.Bounds(size=8 << 20, depth=32, nodes=100_000)


def _select(
    text: str, context: str, *, cluster: str = "", user: str = ""
) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    """Return cluster, user and namespace of the current (or named) context, or those named."""
    try:
        doc = untrusted.load_yaml(text.encode(errors="replace"), _BOUNDS)
        if not isinstance(doc, dict):
            raise errors.KubeConfigError("kubeconfig is not a mapping")
        name = context or untrusted.text(doc, "current-context")
        # A message may contain a name that the user of a command has typed.
        chosen = _named(doc, "contexts", "context", name, typed=bool(context))
        cluster_name = cluster or untrusted.text(chosen, "cluster")
        found = _named(doc, "clusters", "cluster", cluster_name, typed=bool(cluster))
        user_name = user or untrusted.text(chosen, "user")
        login = _named(doc, "users", "user", user_name, typed=bool(user)) if user_name else {}
        return found, login, untrusted.text(chosen, "namespace") or "default"
    except untrusted.UntrustedError as exc:
        raise errors.KubeConfigError(f"kubeconfig cannot be read: {exc}") from exc


def _named(
    doc: Mapping[str, untrusted.Value],
    table: str,
    field_name: str,
    name: str,
    *,
    typed: bool = False,
) -> Mapping[str, Any]:
    """Return a row of a table; messages do not contain a name from the file, which is untrusted."""
    rows = doc.get(table)
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and row.get("name") == name:
            value = row.get(field_name)
            section = value if isinstance(value, dict) else {}
            for text in _TEXTS:
                untrusted.text(section, text)
            return section
    if typed:
        raise errors.KubeConfigError(f"kubeconfig has no {field_name} {name!r}")
    if not name:
        raise errors.KubeConfigError(f"kubeconfig has no {_NAMED_BY[field_name]}")
    raise errors.KubeConfigError(
        f"kubeconfig has a {_NAMED_BY[field_name]}, but no {field_name} of that name"
    )


_NAMED_BY: Final = {
    "context": "current-context",
    "cluster": "cluster in its context",
    "user": "user in its context",
}


class _Collector(logging.Handler):
    """Keeps messages instead of printing them."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """Collect what the official client logs: it does not raise an error if a program fails."""
    handler = _Collector()
    logging.getLogger().addHandler(handler)
    try:
        yield handler.told
    finally:
        logging.getLogger().removeHandler(handler)


def _from_plugin(path: Path, context: str, namespace: str) -> ClusterConfig:
    """Let the official client run exec plugins and refresh OIDC tokens."""
    # Lazy: 640 ms and 65 MB, needed on a developer's machine only. The image does not have it.
    try:
        from kubernetes import client, config  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise errors.KubeConfigError(
            f"the user of kubeconfig {path} uses an exec plugin, which needs the Python package"
            " 'kubernetes', which the image does not have: give the user a token or a certificate"
        ) from exc

    def load() -> Any:
        settings = client.Configuration()
        loader: Any = config  # the package is not annotated
        with _complaints() as told:
            loader.load_kube_config(str(path), context or None, settings, persist_config=False)
        if not settings.get_api_key_with_prefix("BearerToken") and not settings.cert_file:
            why = f": {told[-1]}" if told else ""
            raise errors.SignInError(
                f"the program that signs in for kubeconfig {path} issued no credentials{why}"
            )
        return settings

    def token() -> str:
        header = load().get_api_key_with_prefix("BearerToken") or ""
        return str(header).removeprefix("Bearer ")

    loaded = load()
    return ClusterConfig(
        server=str(loaded.host),
        ca=Path(loaded.ssl_ca_cert).read_bytes() if loaded.ssl_ca_cert else None,
        client_cert=Path(loaded.cert_file).read_bytes() if loaded.cert_file else None,
        client_key=Path(loaded.key_file).read_bytes() if loaded.key_file else None,
        token=token,
        namespace=namespace,
        proxy=loaded.proxy or None,
        insecure_skip_tls_verify=not loaded.verify_ssl,
    )
