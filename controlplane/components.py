"""The programs that make one control plane, in the order of their start, with their flags.

All run in the instance's directory, so paths are relative to it. etcd listens on Unix sockets
there, which no other user can open; the API server is the only one with a TCP port, on loopback.
Flags: https://kubernetes.io/docs/reference/command-line-tools-reference/
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

SERVICE_ADDRESSES: Final = "10.96.0.0/16"
SERVICE_ADDRESS: Final = "10.96.0.1"
POD_ADDRESSES: Final = "10.244.0.1/16"

# etcd insists on host:port even for Unix sockets; with this "host" the file is named so.
_ETCD: Final = "unix://etcd.sock:0"
_ETCD_PEER: Final = "unix://peer.sock:0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One program of an instance. ``{port}`` in a flag is the API server's port."""

    name: str
    flags: tuple[str, ...]
    program: str = ""
    """Where the program is, if it is not found under its name."""
    inside: bool = False
    """Whether it runs in the namespaces of the node."""

    def arguments(
        self, values: Mapping[str, str], *, extra: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        """Return the flags of one start; ``extra`` take the place of those of the same name.

        It is not enough that they come last: some flags, the issuer of tokens for one, make lists.
        ``values`` stand for the names in braces in our own flags.
        """
        return (*(flag.format_map(values) for flag in self._besides(extra)), *extra)

    def with_flags(self, flags: tuple[str, ...]) -> "Component":
        """Return the same program with further flags, which win over those of the same name."""
        return replace(self, flags=(*self._besides(flags), *flags))

    def _besides(self, others: tuple[str, ...]) -> list[str]:
        given = {flag.partition("=")[0] for flag in others}
        return [flag for flag in self.flags if flag.partition("=")[0] not in given]


COMPONENTS: Final = (
    # The store. Nothing in it outlives the instance, so it never waits for a disk.
    Component(
        name="etcd",
        flags=(
            "--data-dir=etcd",
            "--unsafe-no-fsync",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            f"--listen-peer-urls={_ETCD_PEER}",
            f"--initial-advertise-peer-urls={_ETCD_PEER}",
            f"--initial-cluster=default={_ETCD_PEER}",
            "--log-level=warn",
        ),
    ),
    Component(
        name="kube-apiserver",
        flags=(
            f"--etcd-servers={_ETCD}",
            "--bind-address=127.0.0.1",
            "--secure-port={port}",
            # The supervisor holds the port bound but silent, so nobody takes it before the start.
            "--permit-port-sharing",
            "--cert-dir=pki",
            "--tls-cert-file=pki/apiserver.crt",
            "--tls-private-key-file=pki/apiserver.key",
            # No node and no other API server has to find this one.
            "--endpoint-reconciler-type=none",
            f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
            "--allow-privileged",
            # Who you are: client certificates, service-account tokens, the front proxy.
            "--client-ca-file=pki/ca.crt",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=pki/service-accounts.pub",
            "--service-account-signing-key-file=pki/service-accounts.key",
            # What you may do.
            "--authorization-mode=RBAC",
            # Aggregated API servers trust these headers from this certificate only.
            "--requestheader-client-ca-file=pki/front-proxy-ca.crt",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--proxy-client-cert-file=pki/front-proxy-client.crt",
            "--proxy-client-key-file=pki/front-proxy-client.key",
        ),
    ),
    Component(
        name="kube-controller-manager",
        flags=(
            "--kubeconfig=kube-controller-manager.kubeconfig",
            "--secure-port=0",
            "--leader-elect=false",
            # Each controller acts under its own service account, with the roles that exist for it.
            "--use-service-account-credentials",
            "--root-ca-file=pki/ca.crt",
            "--service-account-private-key-file=pki/service-accounts.key",
            "--cluster-signing-cert-file=pki/ca.crt",
            "--cluster-signing-key-file=pki/ca.key",
            # Nobody wants to wait the usual 15 s to see an autoscaler act.
            "--horizontal-pod-autoscaler-sync-period=1s",
            # The default of 20 would be what a load test measures.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ),
    ),
    Component(
        name="kube-scheduler",
        flags=(
            "--kubeconfig=kube-scheduler.kubeconfig",
            "--secure-port=0",
            "--leader-elect=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ),
    ),
    # The kubelet of one node without a machine: what the stages say comes true at once.
    Component(
        name="kwok",
        flags=(
            "--kubeconfig=kwok.kubeconfig",
            "--config=kwok.yaml",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            f"--cidr={POD_ADDRESSES}",
            "--node-ip=10.244.0.1",
            "--node-lease-duration-seconds=40",
        ),
    ),
)
