"""Lay out the directory of a new instance: certificates, kubeconfigs, the rules of kwok.

Each program gets an identity of its own, with the rights that Kubernetes (or, for kwok, our
bootstrap manifest) grants to that name; only the user of the instance is an administrator.
"""

import shutil
from pathlib import Path
from typing import Final

from controlplane import certificates, components, instance, kubeconfig
from controlplane.certificates import Authority, KeyPair

KWOK_STAGES: Final = Path(__file__).parent / "manifests" / "kwok.yaml"

# https://kubernetes.io/docs/setup/best-practices/certificates/
_USERS: Final = {
    "kube-controller-manager": "system:kube-controller-manager",
    "kube-scheduler": "system:kube-scheduler",
    "kwok": "kwok",
}
_SERVING_HOSTS: Final = (
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    components.SERVICE_ADDRESS,
)


def create(directory: Path, *, name: str, port: int) -> None:
    """Make the directory anew, with all that the components read at their start."""
    shutil.rmtree(directory, ignore_errors=True)
    for path in (directory, directory / "pki", directory / "logs"):
        path.mkdir(mode=0o700)
    pki = directory / "pki"
    ca = Authority.create("penstock-ca")
    ca.pair.write(pki, "ca")
    ca.serving("kube-apiserver", hosts=_SERVING_HOSTS).write(pki, "apiserver")
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
    for component, user in _USERS.items():
        write(f"{component}.kubeconfig", ca.client(user))
    shutil.copyfile(KWOK_STAGES, directory / "kwok.yaml")


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
