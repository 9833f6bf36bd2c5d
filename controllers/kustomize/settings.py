"""What the flags decide for every Kustomization of this process."""

from dataclasses import dataclass

import msgspec

from crds.kustomize import Kustomization
from crds.kustomize_parts import IgnoreRule
from toolkit.apply.ignore import IgnoreRule as ApplyRule
from toolkit.apply.options import ApplyOptions
from toolkit.apply.ownership import Owner
from toolkit.apply.selector import Selector
from toolkit.kube.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings that a pass needs."""

    concurrent_ssa: int

    @classmethod
    def of(cls, options: Options) -> "Settings":
        """Take them from the flags."""
        return cls(concurrent_ssa=options.concurrent_ssa)

    def apply_options(self, obj: Kustomization, *, recheck: bool = False) -> ApplyOptions:
        """Return how the objects of this Kustomization are applied.

        ``recheck`` asks the API server about objects that are known to be unchanged as well.
        """
        return ApplyOptions(
            owner=Owner(namespace=obj.metadata.namespace, name=obj.metadata.name),
            force=obj.spec.force,
            recheck=recheck,
            ignore=tuple(_ignore(rule) for rule in obj.spec.ignore),
            concurrency=self.concurrent_ssa,
        )


def _ignore(rule: IgnoreRule) -> ApplyRule:
    target = Selector(**msgspec.structs.asdict(rule.target)) if rule.target else Selector()
    return ApplyRule(paths=tuple(rule.paths), target=target)
