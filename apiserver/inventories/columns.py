"""The columns of ``kubectl get inventories``, and the fields for selectors."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from apiserver.cells import number, shorten, text
from apiserver.resource import Column
from toolkit.objects import Json, dig


def _ready(obj: Json) -> str:
    status = obj["status"]
    return f"{status['current']}/{status['observed']}"


def _source(obj: Json) -> str:
    source = dig(obj, "spec", "sourceRef", default={})
    return f"{source['kind']}/{source['name']}" if source else ""


def _revision(obj: Json) -> str:
    return shorten(obj["status"]["revision"])


FIELDS: Final[Mapping[str, Callable[[Json], str]]] = MappingProxyType(
    {
        name: text(*name.split("."))
        for name in (
            "spec.applierRef.kind",
            "spec.applierRef.name",
            "spec.sourceRef.kind",
            "spec.sourceRef.name",
            "spec.sourceRef.namespace",
            "spec.suspended",
            "spec.remote",
            "status.ready",
            "status.revision",
            "status.objects",
            "status.unobserved",
            "status.failed",
            "status.drifted",
            "status.missing",
        )
    }
)
"""``spec.suspended`` and ``status.ready`` are ``True`` or ``False``; others are texts."""

COLUMNS: Final = (
    Column(
        name="Name",
        cell=text("metadata", "name"),
        format="name",
        description="Name of the inventory: its applier's, behind the kind of a HelmRelease.",
    ),
    Column(
        name="Objects",
        cell=number("status", "objects"),
        type="integer",
        description="How many objects are listed.",
    ),
    Column(
        name="Ready",
        cell=_ready,
        description="How many of the observed objects are as their specs ask.",
    ),
    Column(
        name="Drifted",
        cell=number("status", "drifted"),
        type="integer",
        description="How many were changed or deleted since the last apply.",
    ),
    Column(name="Revision", cell=_revision, description="Revision that was applied last."),
    Column(
        name="Age",
        cell=text("metadata", "creationTimestamp"),
        type="date",
        description="How long there has been the applier.",
    ),
    Column(
        name="Suspended",
        cell=text("spec", "suspended"),
        priority=1,
        description="Whether the applier is suspended.",
    ),
    Column(
        name="Source",
        cell=_source,
        priority=1,
        description="The source at the root of the build.",
    ),
    Column(
        name="Message",
        cell=text("status", "message"),
        priority=1,
        description="The first thing that keeps it from being ready.",
    ),
)
