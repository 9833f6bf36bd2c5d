"""The flags of every component: Flux's names, defaults and meanings (Flux 2.9), in one table.

A flag that a component does not use is accepted by all, so that one set of arguments serves a
process that runs several. Durations are Go's (``1m30s``); booleans may be given bare or ``=false``.
"""

import argparse
import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NoReturn

from crds.meta import parse_duration
from toolkit.kube.controller import ControllerOptions
from toolkit.kube.leaderelection import Timing

_EMPTY: Final[Mapping[str, bool]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parsed flags; an attribute is its flag with underscores. Durations are in seconds."""

    components: tuple[str, ...] = ()
    kubeconfig: str = ""
    runtime_namespace: str = ""
    concurrent: int = 0
    requeue_dependency: float = 30.0
    min_retry_delay: float = 0.75
    max_retry_delay: float = 900.0
    interval_jitter_percentage: int = 5
    graceful_shutdown_timeout: float = 30.0
    http_retry: int = 9
    watch_all_namespaces: bool = True
    watch_label_selector: str = ""
    watch_configs_label_selector: str = "reconcile.fluxcd.io/watch=Enabled"
    no_cross_namespace_refs: bool = False
    default_service_account: str = ""
    default_decryption_service_account: str = ""
    shared_decryption_identity: bool = False
    default_kubeconfig_service_account: str = ""
    insecure_kubeconfig_exec: bool = False
    insecure_kubeconfig_tls: bool = False
    insecure_allow_http: bool = True
    allow_private_revocation_servers: bool = False
    sigstore_offline: bool = False
    no_remote_bases: bool = False
    concurrent_ssa: int = 4
    override_manager: tuple[str, ...] = ()
    custom_apply_stage_kinds: tuple[str, ...] = ()
    storage_path: str = ""
    storage_addr: str = ":9090"
    storage_adv_addr: str = ""
    storage_backend: str = ""
    storage_namespace_quota: int = 0
    artifact_retention_ttl: float = 60.0
    artifact_retention_records: int = 2
    plan_addr: str = ":9791"
    plan_address: str = ""
    artifact_hosts: tuple[str, ...] = ()
    webhook_addr: str = ":9443"
    webhook_url: str = ""
    webhook_concurrent: int = 64
    webhook_client_networks: tuple[str, ...] = ()
    webhook_client_ca_file: str = ""
    webhook_client_names: tuple[str, ...] = ()
    disable_admission_plugins: tuple[str, ...] = ()
    secure_addr: str = ":6443"
    apiservice_port: int = 443
    shutdown_delay_duration: float = 5.0
    certificate_authority_lifetime: float = 31_536_000.0
    certificate_lifetime: float = 7_776_000.0
    certificate_overlap: float = 3600.0
    token_cache_max_size: int = 100
    token_cache_max_duration: float = 3600.0
    events_addr: str = ""
    metrics_addr: str = ":8080"
    health_addr: str = ":9440"
    log_level: str = "info"
    log_encoding: str = "json"
    enable_leader_election: bool = False
    leader_election_lease_duration: float = 35.0
    leader_election_renew_deadline: float = 30.0
    leader_election_retry_period: float = 5.0
    kube_api_qps: float = -1.0
    kube_api_burst: int = 300
    feature_gates: Mapping[str, bool] = field(default_factory=lambda: _EMPTY)

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

    @property
    def election(self) -> Timing:
        """Return the times of leader election."""
        return Timing(
            lease_duration=self.leader_election_lease_duration,
            renew_deadline=self.leader_election_renew_deadline,
            retry_period=self.leader_election_retry_period,
        )


def _bool(text: str) -> bool:
    values = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
    try:
        return values[text.lower()]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false") from None


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


def _bytes(text: str) -> int:
    number = text.rstrip("KMGTi")
    unit = _UNITS.get(text.removeprefix(number))
    if unit is None or not number.isascii() or not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: give one as 500Mi or 2Gi")
    return int(number) * unit


_UNITS: Final = MappingProxyType(
    {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _gates(text: str) -> Mapping[str, bool]:
    pairs = (pair.partition("=") for pair in _names(text))
    return {name: _bool(value or "true") for name, _, value in pairs}


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag. The default is written as on the command line."""

    name: str
    type: Callable[[str], Any]
    default: str
    help: str


FLAGS: Final = (
    # What runs, and as whom.
    Flag(
        "components", _names, "", "components to run in this process, comma-separated; all if empty"
    ),
    Flag(
        "kubeconfig", str, "", "kubeconfig file; otherwise the in-cluster account, then KUBECONFIG"
    ),
    Flag(
        "runtime-namespace",
        str,
        "",
        "own namespace; otherwise RUNTIME_NAMESPACE, then the account's",
    ),
    # Pace.
    Flag(
        "concurrent",
        int,
        "0",
        "objects of a namespace reconciled at once per kind, and one more of others;"
        " 0: the component's default",
    ),
    Flag("requeue-dependency", _duration, "30s", "delay before a dependency is looked at again"),
    Flag("min-retry-delay", _duration, "750ms", "first delay after a failure"),
    Flag("max-retry-delay", _duration, "15m", "longest delay after failures"),
    Flag("interval-jitter-percentage", int, "5", "how far intervals are spread, in percent"),
    Flag(
        "graceful-shutdown-timeout", _duration, "30s", "how long passes may finish after a signal"
    ),
    Flag("http-retry", int, "9", "attempts to fetch an artifact"),
    Flag(
        "kube-api-qps",
        float,
        "-1",
        "API requests a second; -1: the server's fairness sets the pace",
    ),
    Flag("kube-api-burst", int, "300", "API requests at once, when --kube-api-qps is positive"),
    # What is watched.
    Flag("watch-all-namespaces", _bool, "true", "watch all namespaces, or only the own one"),
    Flag("watch-label-selector", str, "", "reconcile only objects with these labels (sharding)"),
    Flag(
        "watch-configs-label-selector",
        str,
        "reconcile.fluxcd.io/watch=Enabled",
        "ConfigMaps and Secrets whose change starts a reconcile",
    ),
    # Tenancy.
    Flag("no-cross-namespace-refs", _bool, "false", "refuse references to other namespaces"),
    # The webhooks judge by these what the controllers will do.
    Flag(
        "default-service-account",
        str,
        "",
        "account to apply as, and to be at a cloud, where none is named",
    ),
    Flag(
        "default-decryption-service-account",
        str,
        "",
        "account to decrypt as",
    ),
    Flag(
        "shared-decryption-identity",
        _bool,
        "false",
        "let this process sign in as itself at key services for Kustomizations with no account:"
        " each of them then opens what it may open",
    ),
    Flag("default-kubeconfig-service-account", str, "", "account for spec.kubeConfig"),
    Flag("insecure-kubeconfig-exec", _bool, "false", "not supported: programs are never run"),
    Flag("insecure-kubeconfig-tls", _bool, "false", "let kubeconfigs skip TLS verification"),
    Flag("insecure-allow-http", _bool, "true", "let sources use plain HTTP"),
    Flag(
        "allow-private-revocation-servers",
        _bool,
        "false",
        "let certificates of Notary signatures name OCSP and CRL servers at private addresses",
    ),
    Flag(
        "sigstore-offline",
        _bool,
        "false",
        "verify by the public Sigstore root that is shipped, and never refresh it",
    ),
    Flag(
        "no-remote-bases",
        _bool,
        "false",
        "remote bases are never fetched, whatever it says",
    ),
    Flag("concurrent-ssa", int, "4", "objects of one Kustomization applied at once"),
    Flag(
        "override-manager",
        _names,
        "",
        "field managers whose fields are taken over besides kubectl's, comma-separated",
    ),
    Flag(
        "custom-apply-stage-kinds",
        _names,
        "",
        "kinds to apply before the rest, as group/Kind, comma-separated",
    ),
    # Artifacts.
    Flag("storage-path", str, "", "directory of the artifact store"),
    Flag("storage-addr", str, ":9090", "address of the artifact server"),
    Flag(
        "storage-adv-addr",
        str,
        "",
        "host and port that artifact URLs name, and at which it is asked what is stored",
    ),
    Flag(
        "storage-backend",
        str,
        "",
        "bucket that holds the artifacts instead of the directory: s3://, gs:// or az://",
    ),
    Flag(
        "storage-namespace-quota",
        _bytes,
        "0",
        "how much the artifacts of one namespace may take together, as 2Gi; 0: no limit",
    ),
    Flag("artifact-retention-ttl", _duration, "60s", "how long old artifacts stay"),
    Flag("artifact-retention-records", int, "2", "how many artifacts stay per source"),
    # Plans.
    Flag("plan-addr", str, ":9791", "address at which plans are made on demand; 0: nowhere"),
    Flag(
        "plan-address",
        str,
        "",
        "host and port at which plans are asked for; the kustomize-controller's Service if empty",
    ),
    Flag(
        "artifact-hosts",
        _names,
        "",
        "further hosts, with ports, that artifacts of third parties are fetched from to be shown,"
        " comma-separated",
    ),
    # Admission.
    Flag("webhook-addr", str, ":9443", "address of the admission webhooks"),
    Flag(
        "webhook-url",
        str,
        "",
        "URL under which API servers reach that address where no Service leads to it",
    ),
    Flag("webhook-concurrent", int, "64", "requests that a plugin reviews at once"),
    Flag(
        "webhook-client-networks",
        _names,
        "",
        "networks (CIDR) that API servers ask webhooks from, comma-separated; others get no answer",
    ),
    Flag(
        "webhook-client-ca-file",
        str,
        "",
        "authorities (PEM) of the certificate that API servers must show to webhooks; without it"
        " and without networks, encrypted Secrets are left to the controllers",
    ),
    Flag(
        "webhook-client-names",
        _names,
        "",
        "common names that such a certificate may have, comma-separated; any if empty",
    ),
    Flag(
        "disable-admission-plugins",
        _names,
        "",
        "plugins of the webhooks that are not to be asked, comma-separated",
    ),
    # The aggregated API.
    Flag("secure-addr", str, ":6443", "address of the aggregated API"),
    Flag("apiservice-port", int, "443", "port of the Service that leads to that address"),
    Flag(
        "shutdown-delay-duration",
        _duration,
        "5s",
        "how long requests are answered after a signal, while others notice",
    ),
    Flag(
        "certificate-authority-lifetime",
        _duration,
        "8760h",
        "life of the authority that signs our certificates; renewed after two thirds",
    ),
    Flag(
        "certificate-lifetime",
        _duration,
        "2160h",
        "life of a serving certificate; renewed after two thirds",
    ),
    Flag(
        "certificate-overlap",
        _duration,
        "1h",
        "how long an authority is trusted before it signs, and after its follower does",
    ),
    # Clouds.
    Flag("token-cache-max-size", int, "100", "credentials of clouds that are kept; 0: none"),
    Flag("token-cache-max-duration", _duration, "1h", "how long such a credential is kept"),
    # Being watched.
    Flag("events-addr", str, "", "URL of the notification controller"),
    Flag("metrics-addr", str, ":8080", "address of /metrics; 0 switches it off"),
    Flag("health-addr", str, ":9440", "address of /healthz and /readyz; 0 switches it off"),
    Flag("log-level", str, "info", "trace, debug, info or error"),
    Flag("log-encoding", str, "json", "json or console"),
    # Replicas.
    Flag("enable-leader-election", _bool, "false", "let one replica work at a time"),
    Flag("leader-election-lease-duration", _duration, "35s", "age at which a lease may be taken"),
    Flag("leader-election-renew-deadline", _duration, "30s", "when a leader gives up renewing"),
    Flag("leader-election-retry-period", _duration, "5s", "pause between attempts"),
    # Compatibility.
    Flag("feature-gates", _gates, "", "Gate=true,…; gates that are not known here are ignored"),
)
"""Every flag, in the order of ``--help``."""

_CHOICES: Final = MappingProxyType(
    {"log-level": ("trace", "debug", "info", "error"), "log-encoding": ("json", "console")}
)


def parse(argv: Sequence[str], *, components: Sequence[str]) -> Options:
    """Parse a command line; ``components`` are those that exist, and the default of the flag.

    Ends the process with status 2 and a message on stderr when the line is wrong.
    """
    parser = _Parser(prog="controllers", allow_abbrev=False)
    for flag in FLAGS:
        bare: dict[str, Any] = {"nargs": "?", "const": True} if flag.type is _bool else {}
        help_ = f"{flag.help} (default: {flag.default or 'none'})"
        parser.add_argument(
            f"--{flag.name}",
            type=flag.type,
            default=flag.default,
            help=help_.replace("%", "%%"),
            choices=_CHOICES.get(flag.name),
            metavar=flag.type.__name__.strip("_").upper(),
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
    """Says what was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Add the nearest flag to the message about an unknown one."""
        _, _, unknown = message.partition("unrecognized arguments: ")
        word = unknown.split(" ")[0].split("=")[0]
        near = difflib.get_close_matches(word, [f"--{flag.name}" for flag in FLAGS], n=1)
        if near:
            message += f" (did you mean {near[0]}?)"
        super().error(message)
