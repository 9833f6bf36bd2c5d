"""The subject of a verification: the digest that must be signed, and the store of signatures.

A tag is resolved once, before: the resulting digest is verified, and then the same digest is
fetched (in CVE-2022-47633 the registry was asked twice).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from toolkit.remote.oci.errors import MalformedError, RegistryNotFoundError
from toolkit.remote.oci.oci import Descriptor, Manifest, Repository
from toolkit.verify.signature import VerificationError


class SignatureStore(Protocol):
    """Reads a registry; every method raises ``RegistryError``, and validates and bounds its input.

    An error never means that there are no signatures; only the registry can say so. But a missing
    or invalid attachment is treated as an answer (`refusing`).
    """

    async def resolve(self, repository: Repository, reference: str) -> Descriptor:
        """Return the target of a tag; raise ``RegistryNotFoundError`` if there is no such tag."""
        ...

    async def manifest(self, repository: Repository, digest: str) -> Manifest:
        """Return the manifest of this digest."""
        ...

    async def referrers(
        self, repository: Repository, digest: str, *, artifact_type: str = ""
    ) -> tuple[Descriptor, ...]:
        """Return the referrers of the digest, by the referrers API or its fallback tag."""
        ...

    async def read_blob(
        self, repository: Repository, descriptor: Descriptor, *, limit: int
    ) -> bytes:
        """Return a blob of at most ``limit`` bytes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An artifact in a registry, by the digest that was resolved for it."""

    store: SignatureStore
    repository: Repository
    descriptor: Descriptor

    @property
    def digest(self) -> str:
        """Return ``sha256:<hex>``."""
        return self.descriptor.digest

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}"


@contextmanager
def refusing(step: int) -> Iterator[None]:
    """Refuse invalid attachments, because users who may push can create them at any time.

    Raises:
        VerificationError: the body found a missing or invalid attachment; ``step`` is the step.
    """
    try:
        yield
    except RegistryNotFoundError as exc:
        # An entry of a list of referrers may have been deleted since.
        raise VerificationError(f"it is not there: {exc}", step=step) from exc
    except MalformedError as exc:
        raise VerificationError(str(exc), step=step) from exc
