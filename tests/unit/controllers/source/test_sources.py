"""Every table of the kinds that have artifacts names the same ones: a new kind forgets none."""

from typing import get_args, get_type_hints

import crds
from apiserver.artifacts import observed
from controllers.source.sources import SOURCES
from crds import helm_parts, kustomize
from crds.policy_source import SourceKind
from toolkit.artifact import kinds
from toolkit.policy import sources
from webhooks import sourcepolicy, standings

NAMES = {kind.kind for kind in crds.KINDS if kind.has_artifact}
PLURALS = {kind.plural for kind in crds.KINDS if kind.has_artifact}


def test_what_has_artifacts_is_fetched_here_or_made_by_others() -> None:
    assert {row.kind.kind for row in SOURCES} | {"ExternalArtifact"} == NAMES


def test_status_tells_of_an_artifact_if_the_kind_has_one() -> None:
    telling = {kind.kind for kind in crds.KINDS if "artifact" in _fields(kind.model, "status")}

    assert telling == NAMES


def test_store_policies_and_api_know_all_of_them() -> None:
    assert {kind.kind for kind in kinds.KINDS.values()} == NAMES
    assert {kind.kind for kind in observed.SOURCES} == NAMES
    assert set(sources.KINDS) == set(get_args(SourceKind)) == NAMES


def test_gate_asks_policies_about_all_of_them() -> None:
    asked = {plural for rule in sourcepolicy.ROW.rules for plural in rule.resources}

    assert asked >= PLURALS


def test_provenance_knows_what_appliers_are_made_from() -> None:
    references = (kustomize.SourceReference, helm_parts.ChartReference)
    usable = {kind for each in references for kind in get_args(get_type_hints(each)["kind"])}
    watched = {plural for rule in standings.PERMISSIONS for plural in rule.resources} & PLURALS

    assert usable <= NAMES
    assert watched == {kind.plural for kind in crds.KINDS if kind.kind in usable}


def _fields(model: type, name: str) -> dict[str, object]:
    status = get_type_hints(model).get(name)
    return get_type_hints(status) if status else {}
