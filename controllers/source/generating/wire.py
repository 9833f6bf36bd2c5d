"""The messages to a build worker, and its answers."""

from msgspec import Struct, field

from crds.extensions import OutputArtifact


class BuildRequest(Struct, frozen=True, kw_only=True):
    """Artifacts to build. ``sources`` are directories by alias; ``into`` is an empty directory."""

    artifacts: list[OutputArtifact]
    path_pattern: str
    sources: dict[str, str]
    into: str


class BuiltArtifact(Struct, frozen=True, kw_only=True):
    """One artifact that was built.

    ``directory`` has its files. ``digest`` is the hash over their names and content in hexadecimal.
    ``revision`` and ``origin`` are aliases of sources, or empty.
    """

    name: str
    directory: str
    digest: str
    files: int
    revision: str = ""
    origin: str = ""
    labels: dict[str, str] = field(default_factory=dict)


class BuildResult(Struct, frozen=True, kw_only=True):
    """All artifacts that were built."""

    artifacts: list[BuiltArtifact]
