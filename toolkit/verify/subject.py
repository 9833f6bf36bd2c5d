"""What must be signed, and where its signatures lie.

A tag is resolved once, before: what is verified here is the digest that it led to, and the same
digest is then fetched (CVE-2022-47633 came of asking the registry twice).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from toolkit.remote.oci.errors import MalformedError, RegistryNotFoundError
from toolkit.remote.oci.oci import Descriptor, Manifest, Repository
from toolkit.verify.signature import VerificationError


class SignatureStore(Protocol):
    """Reads a registry; every method raises ``RegistryError``, bounds what it reads, and checks it.

    An error is never an answer: only a registry that says so has no signatures. But that something
    is gone or malformed is one (`refusing`).
    """

    async def resolve(self, repository: Repository, reference: str) -> Descriptor:
        """Return what a tag points at; ``RegistryNotFoundError`` if there is no such tag."""
        ...

    async def manifest(self, repository: Repository, digest: str) -> Manifest:
        """Return the manifest of this digest."""
        ...

    async def referrers(
        self, repository: Repository, digest: str, *, artifact_type: str = ""
    ) -> tuple[Descriptor, ...]:
        """Return what refers to the digest, by the referrers API or its fallback tag."""
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
    """Refuse what is attached and cannot be accepted: anyone who may push can make that, at will.

    Raises:
        VerificationError: the body met what is gone or malformed; ``step`` is the one that failed.

    """
    try:
        yield
    except RegistryNotFoundError as exc:
        # What a list of referrers names may have been deleted since.
        raise VerificationError(f"it is not there: {exc}", step=step) from exc
    except MalformedError as exc:
        raise VerificationError(str(exc), step=step) from exc
