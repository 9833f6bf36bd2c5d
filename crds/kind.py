"""What the API server and the controllers must know about a kind besides its fields."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from msgspec import Struct

from crds.change import Change

ModelT_co = TypeVar("ModelT_co", bound=Struct, covariant=True)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``; ``path`` is a JSONPath, ``type`` an OpenAPI type or date."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0


@dataclass(frozen=True, slots=True)
class OldVersion:
    """A version that users still have in Git and that is not the stored one.

    ``model`` holds the fields that it had when it was the newest; it is served with those of the
    stored version besides (``crds.versions``). ``changes`` are the places that read differently.
    ``current`` is whether it is the newest that Flux has: a manifest that Flux may apply again is
    written in it, so it is not deprecated.
    """

    version: str
    model: type[Struct]
    changes: tuple[Change, ...] = ()
    current: bool = False

    @property
    def relabelled(self) -> bool:
        """Tell whether the API server may convert by changing the label alone."""
        return not self.changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[ModelT_co]):
    """A kind in its stored version; ``older`` holds the other ones, newest first.

    ``finalizer`` is what its controller puts on objects that it has something to undo for;
    ``has_artifact`` is whether ``status.artifact`` offers something that lies in the store.
    """

    model: type[ModelT_co]
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    columns: tuple[Column, ...]
    component: str
    older: tuple[OldVersion, ...] = ()
    finalizer: str = "finalizers.fluxcd.io"
    namespaced: bool = True
    has_artifact: bool = False

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Return (group, version, kind)."""
        return self.group, self.version, self.kind

    @property
    def api_version(self) -> str:
        """Return ``group/version``."""
        return f"{self.group}/{self.version}"

    @property
    def converted(self) -> bool:
        """Tell whether a version needs the conversion webhook."""
        return not all(old.relabelled for old in self.older)

    @property
    def crd_name(self) -> str:
        """Return the name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"
