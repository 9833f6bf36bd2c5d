"""The components: one row per process, and the command line that starts it.

A component is a module, the service account that it runs as, and the flags that depend on the
machine (ports, directories). A process reads all other settings from the Kubernetes API.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Loopback ports of one replica; they stay the same when it is started again."""

    metrics: int
    health: int
    storage: int
    webhook: int
    plan: int
    events: int
    hooks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Addresses of other components, as ``host:port``; empty for those that this stack lacks."""

    storage: tuple[str, ...] = ()
    """Each replica's: an artifact has the address of the one that led when it was stored."""
    events: str = ""
    """The receiver of events."""
    plans: Mapping[str, str] = field(default_factory=dict)
    """Those that make plans, by the name of the component."""


ALONE: Final = Neighbours()
_PLANS: Final[Mapping[str, str]] = {
    "kustomize": "--plan-address",
    "helm": "--helm-plan-address",
}
"""The flag that names a component that makes plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One kind of process of the stack.

    ``keeps_files``: it has a directory of its own and does not serve it. ``asked_by_api_server``:
    API servers must reach this machine's loopback, for webhooks, or because it ``serves_api``, an
    API behind the same server.
    """

    name: str
    module: str
    service_account: str
    stores_artifacts: bool = False
    keeps_files: bool = False
    makes_plans: bool = False
    takes_events: bool = False
    asked_by_api_server: bool = False
    serves_api: bool = False

    def command(
        self,
        *,
        ports: Ports,
        storage: Path,
        replicas: int,
        flags: Sequence[str],
        neighbours: Neighbours = ALONE,
    ) -> tuple[str, ...]:
        """Return the argument vector; ``flags`` come last, so that they win."""
        argv = [
            *(sys.executable, "-m", self.module),
            f"--components={self.name}",
            f"--metrics-addr=127.0.0.1:{ports.metrics}",
            f"--health-addr=127.0.0.1:{ports.health}",
            # Shorter than the supervisor's patience (``processes.GRACE``).
            "--graceful-shutdown-timeout=10s",
            f"--enable-leader-election={'true' if replicas > 1 else 'false'}",
        ]
        if self.stores_artifacts:
            argv += [
                f"--storage-path={storage}",
                f"--storage-addr=127.0.0.1:{ports.storage}",
                f"--storage-adv-addr=127.0.0.1:{ports.storage}",
            ]
        if self.keeps_files:
            argv.append(f"--storage-path={storage / self.name}")
        if self.takes_events:
            argv += [
                f"--storage-path={storage}",
                f"--event-endpoint-addr=127.0.0.1:{ports.events}",
                f"--receiver-addr=127.0.0.1:{ports.hooks}",
            ]
        elif neighbours.events and self.module == "controllers":
            argv.append(f"--events-addr=http://{neighbours.events}/")
        if self.makes_plans:
            argv.append(f"--plan-addr=127.0.0.1:{ports.plan}")
        if self.serves_api:
            argv += [
                f"--secure-addr=127.0.0.1:{ports.webhook}",
                f"--apiservice-port={ports.webhook}",
                # There are no other replicas that could serve.
                "--shutdown-delay-duration=0s",
                *(f"{_PLANS[name]}={place}" for name, place in neighbours.plans.items()),
            ]
        if (self.makes_plans or self.serves_api) and neighbours.storage:
            # A plan needs only one artifact server.
            known = neighbours.storage if self.serves_api else neighbours.storage[:1]
            argv.append(f"--storage-adv-addr={','.join(known)}")
        if self.asked_by_api_server and not self.serves_api:
            argv += [
                f"--webhook-addr=127.0.0.1:{ports.webhook}",
                f"--webhook-url=https://127.0.0.1:{ports.webhook}",
                "--webhook-client-networks=127.0.0.0/8",
            ]
        return (*argv, *flags)

    def environment(
        self, base: Mapping[str, str], *, root: Path, kubeconfig: Path, namespace: str
    ) -> dict[str, str]:
        """Return ``base`` without any other way into a cluster than the given kubeconfig."""
        env = {k: v for k, v in base.items() if not k.startswith("KUBERNETES_SERVICE_")}
        search = [str(root), *filter(None, [env.get("PYTHONPATH")])]
        return env | {
            "KUBECONFIG": str(kubeconfig),
            "RUNTIME_NAMESPACE": namespace,
            "PYTHONPATH": ":".join(search),
            "PYTHONSAFEPATH": "1",
            "PYTHONUNBUFFERED": "1",
        }
