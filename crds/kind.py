"""What the API server and the controllers must know about a kind besides its fields."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from msgspec import Struct

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
    """A version that users still have in Git and that is not the stored one."""

    version: str
    model: type[Struct]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[ModelT_co]):
    """A namespaced kind in its stored version; ``older`` holds the other ones, newest first."""

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

    @property
    def gvk(self) -> tuple[str, str, str]:
        """Return (group, version, kind)."""
        return self.group, self.version, self.kind

    @property
    def api_version(self) -> str:
        """Return ``group/version``."""
        return f"{self.group}/{self.version}"

    @property
    def crd_name(self) -> str:
        """Return the name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"
