"""A control plane whose API server has flags: what it shows to webhooks, and what it writes down.

It shows a certificate to every webhook (an admission configuration), and keeps an audit log.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from controlplane import plane
from controlplane.certificates import Authority, KeyPair
from controlplane.plane import ControlPlane
from tests.tools import definitions
from toolkit.objects import Json, dig

_AUDIT = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - level: Metadata
    resources: [{group: "", resources: [secrets]}]
  - level: RequestResponse
"""


@dataclass(frozen=True, kw_only=True)
class Configured:
    """The control plane, who signs what its API server shows, and its audit log."""

    control_plane: ControlPlane
    authority: Authority
    bundle: Path
    audit: Path

    def events(self, namespace: str) -> list[Json]:
        """Return what is written down about a namespace; the last line may be half a one."""
        lines = self.audit.read_text().rpartition("\n")[0].splitlines()
        found = [json.loads(line) for line in lines if namespace in line]
        return [each for each in found if dig(each, "objectRef", "namespace") == namespace]


@contextmanager
def start(directory: Path) -> Iterator[Configured]:
    """Run it with our kinds installed."""
    authority = Authority.create("webhooks")
    bundle, policy = directory / "ca.crt", directory / "policy.yaml"
    bundle.write_bytes(authority.pair.certificate)
    policy.write_text(_AUDIT)
    audit = directory / "audit.log"
    admission = _admission(directory, authority.client("kube-apiserver"))
    flags = [
        f"--admission-control-config-file={admission}",
        f"--audit-policy-file={policy}",
        f"--audit-log-path={audit}",
    ]
    with plane.start("pytest-configured", alternatives=8, flags={"kube-apiserver": flags}) as made:
        definitions.install(made)
        yield Configured(control_plane=made, authority=authority, bundle=bundle, audit=audit)


def _admission(directory: Path, pair: KeyPair) -> Path:
    """Write what makes an API server show a certificate to every webhook."""
    shown = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    kubeconfig = directory / "kubeconfig"
    document = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": shown}]}
    kubeconfig.write_text(yaml.safe_dump(document))
    group = "apiserver.config.k8s.io/v1"
    kind = {"apiVersion": group, "kind": "WebhookAdmissionConfiguration"}
    plugins = [
        {"name": name, "configuration": {**kind, "kubeConfigFile": str(kubeconfig)}}
        for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    ]
    whole = {"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}
    path = directory / "admission.yaml"
    path.write_text(yaml.safe_dump(whole))
    return path
