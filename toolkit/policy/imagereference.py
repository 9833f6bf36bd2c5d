"""Parse the name of an image as container runtimes do: registry, repository, tag and digest.

The rules are those of ``distribution/reference`` (``ParseDockerRef``), which containerd and the
kubelet use: a first part without dot or colon is a path on Docker Hub, a single name is an official
image there, a missing tag is ``latest``, and the digest wins over the tag. Names that runtimes
refuse are refused here. So is a host with capitals, because some runtimes connect to another
registry than others.

Names that runtimes also look up as the ID of an image are refused, because an ID selects any image
on the node, from any registry and without a pull. The kubelet passes ``sha256:<hex>`` on as it is
written, and containerd (``LocalResolve``, ``digestset.Lookup``) and Docker then find images by the
digits, also by the first few.

Different spellings of one registry are normalized: Docker Hub has three names, and ``:443`` is the
default port of https. Otherwise a policy could be bypassed by another spelling of a registry.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from toolkit.errors import StalledError
from toolkit.remote.oci import oci
from toolkit.remote.oci.oci import Repository

HUB: Final = "docker.io"
LATEST: Final = "latest"
_SHOWN: Final = 200


class ImageReferenceError(StalledError):
    """An image name that no runtime takes, or that not all take for the same."""

    default_reason = "InvalidImageName"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageReference:
    """An image: ``registry`` is Docker Hub's only as ``docker.io``; ``digest`` empty if not given.

    ``tag`` is empty where a digest is given alone.
    """

    registry: str
    name: str
    tag: str = ""
    digest: str = ""

    @property
    def repository(self) -> Repository:
        """Return the repository of the image."""
        return Repository(registry=self.registry, name=self.name)

    def __str__(self) -> str:
        tag, digest = self.tag and f":{self.tag}", self.digest and f"@{self.digest}"
        return f"{self.registry}/{self.name}{tag}{digest}"


def parse(text: str) -> ImageReference:
    """Read the ``image`` of a container.

    Raises:
        ImageReferenceError: runtimes would refuse it, or disagree about it.
    """
    if not text.isascii() or len(text) > _LONGEST:
        raise _refused(text, "it is too long, or has characters that no image name has")
    if _IDENTIFIER.fullmatch(text):
        raise _refused(text, f"{_ID}; hexadecimal digits alone are {_NO_NAME}")
    rest, _, digest = text.partition("@")
    if "@" in text and not oci.is_digest(digest):
        raise _refused(text, "after '@' stands no SHA-256 or SHA-512 digest in lower case")
    host, path = _split(rest)
    name, colon, tag = path.partition(":")
    if colon and not oci.is_tag(tag):
        raise _refused(text, "after ':' stands nothing that can be a tag")
    if not _NAME.fullmatch(name) or len(host) + len(name) > _LONGEST_NAME:
        raise _refused(text, "its repository is not a path of lower-case names")
    if not tag and not digest:
        tag = LATEST
    registry = _registry(text, host)
    if registry == HUB and "/" not in name:
        name = f"library/{name}"
    if registry == HUB and _is_identifier(name.removeprefix("library/"), tag):
        raise _refused(text, f"{_ID}; '{name.removeprefix('library/')}:' is {_NO_NAME}")
    return ImageReference(registry=registry, name=name, tag=tag, digest=digest)


def pinned(text: str, digest: str) -> str:
    """Return the name as it was written, with the digest that its tag led to.

    The tag stays for people to read: of both the digest counts.
    """
    return f"{text}@{digest}"


def without_digest(text: str) -> str:
    """Return the text before the digest."""
    return text.partition("@")[0]


def same_registry(host: str) -> str:
    """Return the normalized spelling of a registry; also for hosts of patterns."""
    host = host.removesuffix(":443")
    return HUB if host in _HUBS else host


_LONGEST: Final = 1024
_LONGEST_NAME: Final = 255
_HUBS: Final = frozenset({HUB, "index.docker.io", "registry-1.docker.io"})
_ID: Final = "container runtimes may take it as the ID of any image on the node"
_NO_NAME: Final = "no name; write registry, repository and tag or digest"
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{12,}")
"""From 12 digits on, the length in which tools print IDs."""
_ALGORITHM: Final = re.compile(r"(?:md[0-9]|sha[0-9]|blake[0-9]|shake[0-9])[a-z0-9._-]*")
_DIGITS: Final = re.compile(r"[A-Fa-f0-9]{64}|[A-Fa-f0-9]{96}|[A-Fa-f0-9]{128}")
"""A tag in the form of a digest, of an algorithm by any name."""
_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME: Final = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_HOST: Final = re.compile(rf"({_LABEL}(?:\.{_LABEL})*|\[(?P<six>[0-9a-f:]+)\])(?P<port>:[0-9]+)?")


def _split(text: str) -> tuple[str, str]:
    """Return host and path (``splitDockerDomain``)."""
    first, slash, rest = text.partition("/")
    if not slash:
        return HUB, text
    if first == "localhost" or "." in first or ":" in first or first.lower() != first:
        return first, rest
    return HUB, text


def _is_identifier(name: str, tag: str) -> bool:
    """Tell whether a name on Docker Hub without a path is the algorithm of a digest."""
    return "/" not in name and bool(_ALGORITHM.fullmatch(name) or _DIGITS.fullmatch(tag))


def _registry(text: str, host: str) -> str:
    match = _HOST.fullmatch(host)
    if match is None:
        raise _refused(text, "its registry is not a host name in lower case")
    port = match["port"] or ""
    if port and not 0 < int(port[1:6]) < 65536:
        raise _refused(text, "its registry has an invalid port")
    if port and port[1] == "0":
        raise _refused(text, "the port of its registry begins with a zero")
    if not match["six"]:
        return same_registry(host)
    try:
        return same_registry(f"[{ipaddress.IPv6Address(match['six'])}]{port}")
    except ValueError as exc:
        raise _refused(text, "its registry is not an address") from exc


def _refused(text: str, why: str) -> ImageReferenceError:
    shown = ascii(text[:_SHOWN])[1:-1]
    return ImageReferenceError(f"'{shown}' cannot be read as an image: {why}")
