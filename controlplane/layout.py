"""Lay out the directory of a new instance: certificates, kubeconfigs, the rules of kwok.

Each program gets an identity of its own, with the rights that Kubernetes (or, for kwok, our
bootstrap manifest) grants to that name; only the user of the instance is an administrator.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from controlplane import certificates, components, instance, kubeconfig
from controlplane.certificates import Authority, KeyPair

KWOK_STAGES: Final = Path(__file__).parent / "manifests" / "kwok.yaml"

# https://kubernetes.io/docs/setup/best-practices/certificates/
_USERS: Final[Mapping[str, tuple[str, Sequence[str]]]] = MappingProxyType(
    {
        "kube-controller-manager": ("system:kube-controller-manager", ()),
        "kube-scheduler": ("system:kube-scheduler", ()),
        "kwok": ("kwok", ()),
    }
)
_SERVING_HOSTS: Final = (
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


def clear(directory: Path) -> None:
    """Make the directory anew, empty but for the folders in it."""
    shutil.rmtree(directory, ignore_errors=True)
    for path in (directory, directory / "pki", directory / "logs"):
        path.mkdir(mode=0o700)


def create(
    directory: Path,
    *,
    name: str,
    port: int,
    service_address: str = components.SERVICE_ADDRESS,
    users: Mapping[str, tuple[str, Sequence[str]]] = MappingProxyType({}),
) -> Authority:
    """Write all that the components read at their start into a directory that was cleared.

    ``service_address`` is the ClusterIP of the API server; ``users`` are further programs that
    get a kubeconfig, with the user's name and groups. Returns the authority of client certificates.
    """
    pki = directory / "pki"
    ca = Authority.create("penstock-ca")
    ca.pair.write(pki, "ca")
    ca.serving("kube-apiserver", hosts=(*_SERVING_HOSTS, service_address)).write(pki, "apiserver")
    _write_front_proxy(pki)
    private, public = certificates.signing_key()
    certificates.write_private(pki / "service-accounts.key", private)
    certificates.write_private(pki / "service-accounts.pub", public)
    admin = ca.client("admin", groups=("system:masters",))
    admin.write(pki, "admin")

    def write(file: str, client: KeyPair) -> None:
        kubeconfig.write(
            directory / file,
            context=f"penstock-{name}",
            server=server(port),
            ca=ca.pair.certificate,
            client=client,
        )

    write(instance.ADMIN, admin)
    for component, (user, groups) in {**_USERS, **users}.items():
        write(f"{component}.kubeconfig", ca.client(user, groups=groups))
    shutil.copyfile(KWOK_STAGES, directory / "kwok.yaml")
    return ca


def server(port: int) -> str:
    """Return the URL of the API server at ``port``."""
    return f"https://127.0.0.1:{port}"


def remove_all_but_logs(directory: Path) -> None:
    """Remove what a failed instance leaves, keys first of all, but what tells why it failed."""
    for path in directory.iterdir():
        if path.name in ("logs", instance.STATE):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _write_front_proxy(pki: Path) -> None:
    authority = Authority.create("penstock-front-proxy-ca")
    certificates.write_private(pki / "front-proxy-ca.crt", authority.pair.certificate)
    authority.client("front-proxy-client").write(pki, "front-proxy-client")
