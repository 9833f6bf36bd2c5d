"""What the panels of Flux's public Grafana dashboards ask for.

The dashboards are ``control-plane``, ``cluster`` and ``logs`` of fluxcd/flux2-monitoring-example.
Flux's PodMonitor does not set ``honorLabels``, so Prometheus keeps labels of the scraped pod, and
renames a label of the same name that a metric has to ``exported_<name>``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

SCRAPED: Final = frozenset(
    {"namespace", "pod", "container", "endpoint", "service", "job", "instance", "app"}
)
"""Labels that the ServiceMonitor adds to every series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A metric that panels ask for, with its labels and the values that they select.

    ``instead`` is the metric to write into the panel if Penstock does not serve ``metric``.
    """

    dashboard: str
    titles: tuple[str, ...]
    metric: str
    labels: frozenset[str] = frozenset()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    instead: str = ""


def _control_plane(
    metric: str, *titles: str, labels: str = "", instead: str = "", **values: str
) -> Panel:
    wanted = {name: tuple(text.split()) for name, text in values.items()}
    return Panel(
        dashboard="control-plane",
        titles=titles,
        metric=metric,
        labels=frozenset({*labels.split(), *wanted}),
        values=MappingProxyType(wanted),
        instead=instead,
    )


_KINDS: Final = "gitrepository ocirepository helmrepository bucket helmrelease helmchart"
_OBJECT: Final = frozenset({"namespace", "exported_namespace", "kind", "name"})

PANELS: Final = (
    _control_plane("go_info", "Controllers", labels="namespace pod", instead="python_info"),
    _control_plane(
        "go_memstats_alloc_bytes",
        "Memory",
        labels="namespace pod",
        instead="process_resident_memory_bytes",
    ),
    _control_plane(
        "workqueue_longest_running_processor_seconds", "Max Work Queue", labels="namespace pod"
    ),
    _control_plane(
        "workqueue_longest_running_processor_seconds",
        "Cluster Reconciliation Duration",
        name="kustomization",
    ),
    _control_plane("rest_client_requests_total", "API Requests", labels="namespace pod"),
    _control_plane("rest_client_requests_total", "Kubernetes API Requests", labels="code"),
    _control_plane("process_cpu_seconds_total", "CPU Usage", labels="namespace pod"),
    # the variable for the namespace of the controllers
    _control_plane("workqueue_work_duration_seconds_count", "", labels="namespace"),
    _control_plane(
        "controller_runtime_reconcile_total",
        "Cluster Reconciliations ops/min",
        "Git Repos ops/min",
        "OCI Repos ops/min",
        "Helm Repos ops/min",
        "Buckets ops/min",
        "Helm Releases ops/min",
        "Helm Charts ops/min",
        controller=f"kustomization {_KINDS}",
        result="error",
    ),
    _control_plane(
        "controller_runtime_reconcile_time_seconds_bucket",
        "Helm Release Duration",
        labels="le",
        controller="helmrelease",
    ),
    *(
        Panel(
            dashboard="cluster",
            titles=(
                "Reconciler ops avg. duration",
                "Source ops avg. duration",
                "Cluster reconciliation duration",
                "Source acquisition duration",
            ),
            metric=metric,
            labels=_OBJECT,
            values=MappingProxyType(
                {
                    "kind": (
                        *("Kustomization", "HelmRelease", "GitRepository"),
                        *("HelmRepository", "Bucket", "OCIRepository"),
                    )
                }
            ),
        )
        for metric in (
            "gotk_reconcile_duration_seconds_sum",
            "gotk_reconcile_duration_seconds_count",
        )
    ),
    # the variable for the namespace of the controllers
    Panel(
        dashboard="cluster",
        titles=("",),
        metric="gotk_reconcile_condition",
        labels=frozenset({"namespace"}),
    ),
)
"""The metrics of the controllers. The other panels ask kube-state-metrics (``gotk_resource_info``),
the kubelet (``container_memory_working_set_bytes``) or Loki.
"""

LOG_LEVELS: Final = frozenset({"debug", "info", "error"})
"""Levels that the dashboard ``logs`` selects in lines of JSON."""
