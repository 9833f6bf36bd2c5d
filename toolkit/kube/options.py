"""The flags of every component: Flux's names, defaults and meanings (Flux 2.9), in one table.

A flag that a component does not use is accepted by all, so that one set of arguments serves a
process that runs several. Durations are Go's (``1m30s``); booleans may be given bare or ``=false``.
"""

import argparse
import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NoReturn

from toolkit.kube import flags
from toolkit.kube.controller import ControllerOptions
from toolkit.kube.flags import flag
from toolkit.kube.leaderelection import Timing

SHARDING: Final = "sharding.fluxcd.io/key"
"""The label whose value is the shard of an object (Flux)."""
_SHARD: Final = re.compile("[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_WATCHED_ANYWAY: Final = "accepted without effect: each build and release has a memory limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parsed flags; an attribute is its flag with underscores. Durations are in seconds."""

    # Components and identities of the process.
    components: tuple[str, ...] = flag(
        flags.names, "", "components to run in this process, comma-separated; all if empty"
    )
    kubeconfig: str = flag(
        str, "", "kubeconfig file; otherwise the in-cluster account, then KUBECONFIG"
    )
    runtime_namespace: str = flag(
        str, "", "own namespace; otherwise RUNTIME_NAMESPACE, then the account's"
    )
    # Pace.
    concurrent: int = flag(
        int,
        "0",
        "objects of a namespace reconciled at once per kind, and one more of others;"
        " 0: the component's default",
    )
    requeue_dependency: float = flag(
        flags.duration, "30s", "delay before a dependency is looked at again"
    )
    min_retry_delay: float = flag(flags.duration, "750ms", "first delay after a failure")
    max_retry_delay: float = flag(flags.duration, "15m", "longest delay after failures")
    interval_jitter_percentage: int = flag(int, "5", "how far intervals are spread, in percent")
    graceful_shutdown_timeout: float = flag(
        flags.duration, "30s", "how long passes may finish after a signal"
    )
    http_retry: int = flag(int, "9", "attempts to fetch an artifact")
    kube_api_qps: float = flag(
        float, "-1", "API requests a second; -1: the server's fairness sets the pace"
    )
    kube_api_burst: int = flag(int, "300", "API requests at once, when --kube-api-qps is positive")
    # Watched objects.
    watch_all_namespaces: bool = flag(
        flags.bool_, "true", "watch all namespaces, or only the namespace of the process"
    )
    watch_label_selector: str = flag(str, "", "reconcile only objects with these labels (sharding)")
    watch_configs_label_selector: str = flag(
        str,
        "reconcile.fluxcd.io/watch=Enabled",
        "ConfigMaps and Secrets whose change starts a reconcile",
    )
    # Tenancy.
    no_cross_namespace_refs: bool = flag(
        flags.bool_, "false", "refuse references to other namespaces"
    )
    cross_namespace_refs: str = flag(
        str,
        "enforce",
        "how to treat a reference to another namespace that no ReferenceGrant allows: enforce"
        " (refuse it) or warn (allow it with a warning)",
    )
    # The webhooks use these flags too, to predict the decisions of the controllers.
    default_service_account: str = flag(
        str, "", "account to apply as, and to sign in to clouds as, for objects that name none"
    )
    default_decryption_service_account: str = flag(
        str, "", "account to sign in to key services as, for objects that name none"
    )
    shared_decryption_identity: bool = flag(
        flags.bool_,
        "false",
        "let this process sign in to key services as itself for appliers without an account: each"
        " of them can then decrypt what the process can decrypt",
    )
    default_kubeconfig_service_account: str = flag(
        str, "", "account for spec.kubeConfig.configMapRef if the ConfigMap names none"
    )
    shared_kubeconfig_identity: bool = flag(
        flags.bool_,
        "false",
        "let this process sign in to clusters of clouds as itself if the ConfigMap of"
        " spec.kubeConfig names no account: each Kustomization can then access what the process"
        " can access",
    )
    insecure_kubeconfig_exec: bool = flag(
        flags.bool_, "false", "not supported: programs are never run"
    )
    insecure_kubeconfig_tls: bool = flag(
        flags.bool_, "false", "let kubeconfigs skip TLS verification"
    )
    insecure_allow_http: bool = flag(flags.bool_, "true", "let sources use plain HTTP")
    allow_private_revocation_servers: bool = flag(
        flags.bool_,
        "false",
        "let certificates of Notary signatures name OCSP and CRL servers at private addresses",
    )
    sigstore_offline: bool = flag(
        flags.bool_,
        "false",
        "verify by the public Sigstore root that is shipped, and never refresh it",
    )
    require_sandbox: bool = flag(
        flags.bool_,
        "false",
        "refuse to start if the kernel cannot confine worker processes (Landlock, seccomp)",
    )
    no_remote_bases: bool = flag(flags.bool_, "false", "no effect: remote bases are never fetched")
    concurrent_ssa: int = flag(int, "4", "objects of one Kustomization applied at once")
    override_manager: tuple[str, ...] = flag(
        flags.names,
        "",
        "field managers whose fields are taken over besides kubectl's, comma-separated",
    )
    custom_apply_stage_kinds: tuple[str, ...] = flag(
        flags.names, "", "kinds to apply before the rest, as group/Kind, comma-separated"
    )
    # Artifacts.
    storage_path: str = flag(str, "", "directory of the artifact store")
    storage_addr: str = flag(str, ":9090", "address of the artifact server")
    storage_adv_addr: str = flag(
        str, "", "host and port in artifact URLs, and of the server that lists stored artifacts"
    )
    storage_backend: str = flag(
        str, "", "bucket for the artifacts, instead of the directory: s3://, gs:// or az://"
    )
    storage_namespace_quota: int = flag(
        flags.bytes_,
        "0",
        "limit on the total size of the artifacts of one namespace, such as 2Gi; 0: no limit",
    )
    artifact_retention_ttl: float = flag(flags.duration, "60s", "how long old artifacts stay")
    artifact_retention_records: int = flag(int, "2", "how many artifacts stay per source")
    helm_charts_per_namespace: int = flag(
        int,
        "1000",
        "limit on the HelmCharts that the HelmReleases of one namespace make in another one;"
        " 0: no limit",
    )
    # Plans.
    plan_addr: str = flag(str, ":9791", "address that serves plans; 0: disabled")
    plan_address: str = flag(
        str,
        "",
        "host and port of the server of plans; the kustomize-controller's Service if empty",
    )
    helm_plan_address: str = flag(
        str,
        "",
        "host and port of the server of plans of HelmReleases; the helm-controller's Service if"
        " empty",
    )
    artifact_hosts: tuple[str, ...] = flag(
        flags.names,
        "",
        "more hosts, with ports, from which to fetch artifacts of third parties, comma-separated",
    )
    # Notification.
    event_endpoint_addr: str = flag(str, ":9090", "address that receives events")
    receiver_addr: str = flag(str, ":9292", "address that receives the hooks of Receivers")
    event_storage_limit: int = flag(
        flags.bytes_,
        "256Mi",
        "how much disk the events take that are still to be sent; above it those of the namespace"
        " with most are dropped. The file may grow to one and a half times as much",
    )
    rate_limit_interval: float = flag(
        flags.duration, "5m", "how long to leave out an event that equals an earlier one"
    )
    provider_internal_namespaces: tuple[str, ...] = flag(
        flags.names,
        "flux-system",
        "namespaces, comma-separated, besides that of the process, whose Providers and Receivers"
        " may use private addresses; * for all",
    )
    # Admission.
    webhook_addr: str = flag(str, ":9443", "address of the admission webhooks")
    webhook_url: str = flag(
        str, "", "URL under which API servers reach that address without a Service"
    )
    webhook_concurrent: int = flag(int, "64", "requests that a plugin reviews at once")
    webhook_client_networks: tuple[str, ...] = flag(
        flags.names,
        "",
        "networks (CIDR) of the API servers that may call webhooks, comma-separated; others get"
        " 403",
    )
    webhook_client_ca_file: str = flag(
        str,
        "",
        "CA certificates (PEM) for the certificate that API servers must present to webhooks;"
        " without it and without networks, the controllers decrypt Secrets",
    )
    webhook_client_names: tuple[str, ...] = flag(
        flags.names,
        "",
        "common names that such a certificate may have, comma-separated; any if empty",
    )
    webhook_exempt_namespaces: tuple[str, ...] = flag(
        flags.names,
        "",
        "namespaces, comma-separated, in which webhooks check Penstock's own kinds only: those"
        " that nodes need to start, such as the network's",
    )
    disable_admission_plugins: tuple[str, ...] = flag(
        flags.names, "", "plugins of the webhooks to disable, comma-separated"
    )
    # The aggregated API.
    secure_addr: str = flag(str, ":6443", "address of the aggregated API")
    apiservice_port: int = flag(int, "443", "port of the Service for that address")
    shutdown_delay_duration: float = flag(
        flags.duration,
        "5s",
        "how long to keep serving requests after a signal, until others notice",
    )
    certificate_authority_lifetime: float = flag(
        flags.duration,
        "8760h",
        "lifetime of the CA that signs Penstock's certificates; renewed after two thirds",
    )
    certificate_lifetime: float = flag(
        flags.duration, "2160h", "lifetime of a serving certificate; renewed after two thirds"
    )
    certificate_overlap: float = flag(
        flags.duration,
        "1h",
        "how long a CA is trusted before it signs, and after its successor signs",
    )
    # Clouds.
    token_cache_max_size: int = flag(int, "100", "credentials of clouds to cache; 0: none")
    token_cache_max_duration: float = flag(
        flags.duration, "1h", "how long to cache such a credential"
    )
    # Being watched.
    events_addr: str = flag(str, "", "URL of the notification controller")
    metrics_addr: str = flag(str, ":8080", "address of /metrics; 0 switches it off")
    health_addr: str = flag(str, ":9440", "address of /healthz and /readyz; 0 switches it off")
    log_level: str = flag(str, "info", "trace, debug, info or error")
    log_encoding: str = flag(str, "json", "json or console")
    # Replicas.
    enable_leader_election: bool = flag(flags.bool_, "false", "let one replica work at a time")
    leader_election_lease_duration: float = flag(
        flags.duration, "35s", "age at which a lease may be taken"
    )
    leader_election_renew_deadline: float = flag(
        flags.duration, "30s", "when a leader gives up renewing"
    )
    leader_election_retry_period: float = flag(flags.duration, "5s", "pause between attempts")
    # Compatibility.
    feature_gates: Mapping[str, bool] = flag(
        flags.gates, "", "Gate=true,…; gates that are not known here are ignored"
    )
    snapshot_digest_algo: str = flag(
        str, "sha256", "digest of releases in status.history; another one than sha256 is refused"
    )
    oom_watch_interval: float = flag(flags.duration, "500ms", _WATCHED_ANYWAY)
    oom_watch_memory_threshold: int = flag(int, "95", _WATCHED_ANYWAY)
    oom_watch_max_memory_path: str = flag(str, "", _WATCHED_ANYWAY)
    oom_watch_current_memory_path: str = flag(str, "", _WATCHED_ANYWAY)

    def controller(self, *, concurrent: int, namespace: str) -> ControllerOptions:
        """Return a controller's settings.

        ``concurrent`` is the component's own default, ``namespace`` the one to keep to when
        ``--watch-all-namespaces`` is off.
        """
        return ControllerOptions(
            concurrent=self.concurrent or concurrent,
            min_retry_delay=self.min_retry_delay,
            max_retry_delay=self.max_retry_delay,
            requeue_dependency=self.requeue_dependency,
            interval_jitter=self.interval_jitter_percentage / 100,
            grace=self.graceful_shutdown_timeout,
            namespace="" if self.watch_all_namespaces else namespace,
            label_selector=self.watch_label_selector,
        )

    def lease(self, name: str) -> str:
        """Return the name of a component's Lease; each shard has its own leader."""
        label, _, shard = self.watch_label_selector.partition("=")
        return f"{name}-{shard}" if label == SHARDING and _SHARD.fullmatch(shard) else name

    @property
    def election(self) -> Timing:
        """Return the times of leader election."""
        return Timing(
            lease_duration=self.leader_election_lease_duration,
            renew_deadline=self.leader_election_renew_deadline,
            retry_period=self.leader_election_retry_period,
        )


FLAGS: Final = flags.of(Options)
"""Every flag, in the order of ``--help``."""

_CHOICES: Final = MappingProxyType(
    {
        "cross-namespace-refs": ("enforce", "warn"),
        "snapshot-digest-algo": ("sha256",),
        "log-level": ("trace", "debug", "info", "error"),
        "log-encoding": ("json", "console"),
    }
)


def parse(
    argv: Sequence[str], *, components: Sequence[str], program: str = "controllers"
) -> Options:
    """Parse a command line; ``components`` are those that exist, and the default of the flag.

    ``program`` is the package that is run, as help and errors call it.

    Ends the process with status 2 and a message on stderr when the line is wrong.
    """
    parser = _Parser(prog=f"python -m {program}", allow_abbrev=False)
    for each in FLAGS:
        bare: dict[str, Any] = {"nargs": "?", "const": True} if each.type is flags.bool_ else {}
        help_ = f"{each.help} (default: {each.default or 'none'})"
        parser.add_argument(
            f"--{each.name}",
            type=each.type,
            default=each.default,
            help=help_.replace("%", "%%"),
            choices=_CHOICES.get(each.name),
            metavar=each.type.__name__.strip("_").upper(),
            **bare,
        )
    values = vars(parser.parse_args(argv))
    values["components"] = values["components"] or tuple(components)
    strange = [name for name in values["components"] if name not in components]
    if strange:
        parser.error(f"no component {strange[0]!r}; there are {', '.join(components)}")
    values["runtime_namespace"] = values["runtime_namespace"] or os.environ.get(
        "RUNTIME_NAMESPACE", ""
    )
    return Options(**values)


class _Parser(argparse.ArgumentParser):
    """Suggests the flag that the user probably meant."""

    def error(self, message: str) -> NoReturn:
        """Add the nearest flag to the message about an unknown one."""
        _, _, unknown = message.partition("unrecognized arguments: ")
        word = unknown.split(" ")[0].split("=")[0]
        near = difflib.get_close_matches(word, [f"--{each.name}" for each in FLAGS], n=1)
        if near:
            message += f" (did you mean {near[0]}?)"
        super().error(message)
