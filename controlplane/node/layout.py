"""Write what the programs of a node read at their start, below ``node/`` of the instance.

Everything a program would write elsewhere on the machine is moved to what ``namespaces`` hides.
Formats: https://kubernetes.io/docs/reference/config-api/, containerd's ``docs/cri/config.md``,
https://www.cni.dev/plugins/current/main/ptp/ and https://coredns.io/plugins/.
"""

import json
from pathlib import Path
from typing import Any, Final

import yaml

from controlplane.certificates import Authority
from controlplane.node.addresses import Addresses
from controlplane.node.components import DNS_READY_PORT, NODE, PAUSE_IMAGE, SOCKET
from controlplane.node.packages import Packages

USERS: Final = {
    # https://kubernetes.io/docs/reference/access-authn-authz/node/
    "kubelet": (f"system:node:{NODE}", ("system:nodes",)),
    "kube-proxy": ("system:kube-proxy", ()),
    "coredns": ("coredns", ()),
}
"""Who each program is to the API server, and its groups."""

_CONTAINERD: Final = """\
version = 2
# Plugins that would write outside of the node's own directories.
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]

[grpc]
  address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Not every root may lower the score: it takes CAP_SYS_RESOURCE.
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{plugins}"
  conf_dir = "{directory}/cni"
"""

_COREFILE: Final = """\
cluster.local in-addr.arpa {{
    bind {node}
    errors
    ready {node}:{ready}
    kubernetes {{
        kubeconfig {kubeconfig}
        ttl 5
    }}
    cache 5
    loadbalance
}}
# The node knows no other name servers. A clear no lets programs go on to the next search domain.
. {{
    bind {node}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def create(
    directory: Path, *, places: Addresses, found: Packages, cgroup: str, ca: Authority
) -> None:
    """Write the configuration of every program of the node into an instance's directory."""
    own = directory / "node"
    for path in (own, own / "cni"):
        path.mkdir(mode=0o700)
    pki = directory / "pki"
    ca.serving("kubelet", hosts=(places.node, NODE)).write(pki, "kubelet")
    ca.client("kube-apiserver-kubelet-client").write(pki, "kubelet-client")
    (own / "containerd.toml").write_text(
        _CONTAINERD.format(socket=SOCKET, pause=PAUSE_IMAGE, plugins=found.plugins, directory=own)
    )
    (own / "cni" / "10-penstock.conflist").write_text(json.dumps(_cni(places)))
    (own / "kubelet.yaml").write_text(yaml.safe_dump(_kubelet(directory, places, cgroup)))
    (own / "kube-proxy.yaml").write_text(yaml.safe_dump(_kube_proxy(directory, places)))
    (own / "Corefile").write_text(
        _COREFILE.format(
            node=places.node, ready=DNS_READY_PORT, kubeconfig=directory / "coredns.kubeconfig"
        )
    )


def _cni(places: Addresses) -> dict[str, Any]:
    # Each pod has a link of its own and all its packets are routed. On a bridge, packets between
    # pods would pass by the rules of kube-proxy unless the kernel has br_netfilter.
    ptp = {
        "type": "ptp",
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": places.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    return {"cniVersion": "0.4.0", "name": "penstock", "plugins": [ptp, ports]}


def _kubelet(directory: Path, places: Addresses, cgroup: str) -> dict[str, Any]:
    pki = directory / "pki"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet.key"),
        "clusterDNS": [places.dns],
        "clusterDomain": "cluster.local",
        # The machine's name servers cannot be reached from the node.
        "resolvConf": "",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        # How full the machine's disk is must not decide what runs; nothing pulls images again.
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        "maxPods": 250,
        "kubeAPIQPS": 500,
        "kubeAPIBurst": 1000,
    }


def _kube_proxy(directory: Path, places: Addresses) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": NODE,
        "bindAddress": places.node,
        "clusterCIDR": places.pods,
        "clientConnection": {"kubeconfig": str(directory / "kube-proxy.kubeconfig")},
        "healthzBindAddress": f"{places.node}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        # Limits of connection tracking belong to the whole machine: leave them.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "iptables": {"minSyncPeriod": "100ms"},
    }
