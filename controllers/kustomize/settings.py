"""Settings of the process that apply to every Kustomization."""

from dataclasses import dataclass

import msgspec

from controllers.applying import homes
from crds.kustomize import Kustomization
from crds.kustomize_parts import IgnoreRule
from toolkit.apply.ignore import IgnoreRule as ApplyRule
from toolkit.apply.options import ApplyOptions
from toolkit.apply.order import GroupKind
from toolkit.apply.ownership import Owner
from toolkit.apply.selector import Selector
from toolkit.decrypt import envelope
from toolkit.kube.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that a reconciliation needs."""

    concurrent_ssa: int
    overridden: frozenset[str] = frozenset()
    custom_stage_kinds: frozenset[GroupKind] = frozenset()
    fail_fast: bool = True
    strict_substitution: bool = True
    installed: str = ""
    """The namespace of Penstock."""

    @classmethod
    def of(cls, options: Options, *, installed: str) -> "Settings":
        """Return the settings from flags; feature gates are those of kustomize-controller 1.9."""
        gates = options.feature_gates
        return cls(
            concurrent_ssa=options.concurrent_ssa,
            overridden=frozenset(options.override_manager),
            custom_stage_kinds=frozenset(map(_group_kind, options.custom_apply_stage_kinds)),
            fail_fast=not gates.get("DisableFailFastBehavior", False),
            strict_substitution=gates.get("StrictPostBuildSubstitutions", True),
            installed=installed,
        )

    def apply_options(self, obj: Kustomization, *, recheck: bool = False) -> ApplyOptions:
        """Return the options for applying the objects of this Kustomization.

        ``recheck`` sends also objects that the watches show as unchanged.
        """
        return ApplyOptions(
            owner=Owner(
                namespace=obj.metadata.namespace,
                name=obj.metadata.name,
                keeps=homes.kept(obj, self.installed),
            ),
            force=obj.spec.force,
            recheck=recheck,
            ignore=tuple(_ignore(rule) for rule in obj.spec.ignore),
            overridden=self.overridden,
            custom_stage_kinds=self.custom_stage_kinds,
            concurrency=self.concurrent_ssa,
            consumed=frozenset({envelope.CARRIER}),
        )


def _group_kind(text: str) -> GroupKind:
    """Parse ``group/Kind``, or ``Kind`` for the core group."""
    group, _, kind = text.rpartition("/")
    return group, kind


def _ignore(rule: IgnoreRule) -> ApplyRule:
    target = Selector(**msgspec.structs.asdict(rule.target)) if rule.target else Selector()
    return ApplyRule(paths=tuple(rule.paths), target=target)
