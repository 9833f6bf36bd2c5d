"""The ImageRepository that an ImagePolicy refers to, if it may.

A repository of another namespace must allow it: by its own ``accessFrom``, or by a ReferenceGrant
in its namespace. Without either the answer is the same whether or not there is such a repository.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from crds import IMAGE_POLICY, IMAGE_REPOSITORY
from crds.image import ImagePolicy, ImageRepository
from toolkit.errors import WaitingError
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy.references import References, UngrantedError

KIND: Final = GroupVersionKind(*IMAGE_REPOSITORY.gvk)
NOT_READY: Final = "DependencyNotReady"
_POLICY: Final = GroupVersionKind(*IMAGE_POLICY.gvk)

Lookup = Callable[[ObjectKey], ImageRepository | None]
Labels = Callable[[str], Mapping[str, str]]
"""Returns the labels of a namespace."""


def target(obj: ImagePolicy) -> ObjectRef:
    """Return which ImageRepository a policy refers to."""
    ref = obj.spec.image_repository_ref
    return ObjectRef(KIND, ref.namespace or obj.metadata.namespace, ref.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repositories:
    """Finds the repositories of policies."""

    lookup: Lookup
    references: References
    labels: Labels

    def of(self, obj: ImagePolicy) -> ImageRepository:
        """Return the repository of a policy.

        Raises:
            AccessDeniedError: the policy may not refer to it.
            WaitingError: the repository does not exist.
        """
        wanted, own = target(obj), obj.metadata
        found = self.lookup(ObjectKey(wanted.namespace, wanted.name))
        try:
            self.references.require(ObjectRef(_POLICY, own.namespace, own.name), wanted)
        except UngrantedError:
            if found is None or not self._shared(found, own.namespace):
                raise
        if found is None or found.metadata.deletion_timestamp:
            raise WaitingError(
                f"ImageRepository '{wanted.namespace}/{wanted.name}' not found: create it, or "
                "correct spec.imageRepositoryRef",
                reason=NOT_READY,
            )
        return found

    def _shared(self, repository: ImageRepository, namespace: str) -> bool:
        """Tell whether ``spec.accessFrom`` of a repository allows policies of a namespace."""
        if repository.spec.access_from is None:
            return False
        labels = self.labels(namespace)
        return any(
            selector.match_labels.items() <= labels.items()
            for selector in repository.spec.access_from.namespace_selectors
        )
