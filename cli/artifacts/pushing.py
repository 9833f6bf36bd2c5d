"""Push local files as an artifact, and sign it if requested.

The tag is moved last, so a client that follows the tag never sees the artifact without its
signature.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from cli.artifacts import document, signing
from cli.artifacts.address import Address
from cli.artifacts.document import Content
from toolkit.objects import Json
from toolkit.remote.oci.publisher import Publisher

Sign: TypeAlias = Callable[[str], Awaitable[bytes]]
"""Returns a bundle that signs a digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """The pushed artifact: its address with the tag, and its digest."""

    address: Address
    digest: str

    @property
    def by_digest(self) -> str:
        """Return the address with the digest, which cannot be moved."""
        return f"{self.address.repository}@{self.digest}"

    def told(self) -> Json:
        """Return the JSON for ``-o json`` (flux ``push artifact``)."""
        return {
            "url": f"oci://{self.by_digest}",
            "repository": str(self.address.repository),
            "tag": self.address.reference,
            "digest": self.digest,
        }


async def push(
    publisher: Publisher,
    address: Address,
    content: Content,
    annotations: dict[str, str],
    *,
    sign: Sign | None,
) -> Pushed:
    """Push a packed layer.

    Raises:
        RegistryError: see ``toolkit.remote.oci.errors``.
        CommandError: it cannot be signed; then the tag is where it was.
    """
    repository = address.repository
    made = document.make(content, annotations)
    await publisher.blob(repository, content.file, content.digest)
    await publisher.blob(repository, made.config, made.config_digest)
    if sign is not None:
        found = await publisher.manifest(repository, made.manifest)
        await signing.attach(publisher, repository, found, await sign(found.digest))
    found = await publisher.manifest(repository, made.manifest, address.reference)
    return Pushed(address=address, digest=found.digest)
