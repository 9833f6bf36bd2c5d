"""The address of an artifact: ``oci://<host>/<name>[:<tag>][@<digest>]``, as in ``flux``."""

from dataclasses import dataclass

from cli import errors
from toolkit.remote.oci import oci
from toolkit.remote.oci.errors import RepositoryURLError
from toolkit.remote.oci.oci import Repository

LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A repository, and the tag and the digest that the user named, or nothing."""

    repository: Repository
    tag: str = ""
    digest: str = ""

    @property
    def reference(self) -> str:
        """Return the reference to resolve: the digest, else the tag, else ``latest``."""
        return self.digest or self.tag or LATEST

    def __str__(self) -> str:
        return f"{self.repository}{'@' if self.digest else ':'}{self.reference}"


def parse(url: str) -> Address:
    """Read the address of an artifact.

    Raises:
        UsageError: the text is not such an address.
    """
    rest, at, digest = url.partition("@")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # The colon is that of the scheme, or of a port.
        name, tag, colon = rest, "", ""
    if (at and not oci.is_digest(digest)) or (colon and not oci.is_tag(tag)):
        raise errors.UsageError(
            f"'{_shown(url)}' is not the address of an artifact: write it as "
            "'oci://<host>/<name>:<tag>' or 'oci://<host>/<name>@sha256:<hex>'"
        )
    try:
        return Address(repository=Repository.parse(name), tag=tag, digest=digest)
    except RepositoryURLError as exc:
        raise errors.UsageError(
            f"'{_shown(url)}' is not the address of an artifact: write it as "
            "'oci://<host>/<name>:<tag>', in lower case and without credentials"
        ) from exc


def require_tag(address: Address, url: str) -> Address:
    """Return the address if something can be pushed there.

    Raises:
        UsageError: it names a digest.
    """
    if address.digest:
        raise errors.UsageError(f"'{_shown(url)}' names a digest: push to a tag")
    return address


def _shown(url: str) -> str:
    """Return the typed address without a password."""
    return ascii(url.rpartition("@")[2] if "sha" not in url else url)[1:-1][:200]
