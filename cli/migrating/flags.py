"""Flags of Flux's controllers that change their behaviour, and the equivalents here. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Final

from cli.migrating.findings import Finding
from toolkit.kube.options import SHARDING, Options
from toolkit.objects import Json, dig, ref_of

_EXPECTED: Final[Mapping[str, frozenset[str]]] = {
    # the values in Flux's own manifests; an empty set means any value
    "events-addr": frozenset(),
    "watch-all-namespaces": frozenset({"true"}),
    "log-level": frozenset(),
    "log-encoding": frozenset(),
    "enable-leader-election": frozenset(),
    "storage-path": frozenset({"/data"}),
    "storage-adv-addr": frozenset(),
}
_REMEDIES: Final[Mapping[str, str]] = {
    "no-cross-namespace-refs": "install with --components lockdown, or add the flag to Penstock's "
    "Deployments; without it a ReferenceGrant is needed for each such reference",
    "default-service-account": "install with --components lockdown, or add the flag to the "
    "kustomize-controller, the helm-controller and the webhook",
    "no-remote-bases": "nothing: Penstock never fetches remote bases",
    "watch-label-selector": "install with --components sharding, which has a shard1 to copy; "
    "without it Penstock reconciles the objects of all shards",
    "feature-gates": "compare with docs/install.md#flags, and add what you need to Penstock's "
    "Deployments",
    "concurrent": "nothing, or add it to Penstock's Deployment: it counts for each namespace there",
    "requeue-dependency": "nothing, or add it to Penstock's Deployment",
    "storage-adv-addr": "nothing: Penstock serves artifacts at a Service of its own",
}
_KNOWN: Final = frozenset(each.name.replace("_", "-") for each in fields(Options))
_NOTHING: Final = "nothing"


def judge(deployment: Json) -> Iterator[Finding]:
    """Yield findings about the flags that differ from Flux's manifests."""
    for container in dig(deployment, "spec", "template", "spec", "containers", default=()):
        for argument in container.get("args") or ():
            name, _, value = str(argument).lstrip("-").partition("=")
            if _is_expected(name, value or "true"):
                continue
            remedy = _remedy(name, value)
            yield Finding(
                result="info" if remedy.startswith(_NOTHING) else "warning",
                check="flags",
                object=str(ref_of(deployment)),
                message=f"runs with --{name}{'=' if value else ''}{value}",
                remedy=remedy,
            )


def _is_expected(name: str, value: str) -> bool:
    values = _EXPECTED.get(name)
    return values is not None and (not values or value in values)


def _remedy(name: str, value: str) -> str:
    if name == "watch-label-selector" and SHARDING not in value:
        return "add the flag to Penstock's Deployments, which reconcile all objects without it"
    if name in _REMEDIES:
        return _REMEDIES[name]
    if name in _KNOWN:
        return "add the flag to the Deployment of Penstock (docs/install.md#with-manifests)"
    return "Penstock has no such flag, see docs/differences.md"
