"""The list of materials as an SPDX 2.3 document: https://spdx.github.io/spdx-spec/v2.3.

It is written beside the image, whose digest it has, and depends on nothing but the image and the
materials. It does not look into them: crates that a wheel was compiled from are told by the
wheel's own list, where it brings one (PEP 770).
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from release.materials import Material

_DOCUMENT: Final = "SPDXRef-DOCUMENT"
_IMAGE: Final = "SPDXRef-Image"
_NAMESPACE: Final = "https://penstock.dev/spdx"
_UNKNOWN: Final = "NOASSERTION"
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The image that the document describes; ``created`` is its own time."""

    name: str
    version: str
    architecture: str
    digest: str
    licence: str
    created: str


def document(subject: Subject, materials: Iterable[Material]) -> bytes:
    """Return the document, the same for the same image and materials."""
    contained = {_identifier(material): material for material in materials}
    digest = subject.digest.removeprefix("sha256:")
    title = f"{subject.name}-{subject.version}-{subject.architecture}"
    content = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": _DOCUMENT,
        "name": title,
        # It has to differ from that of every other document.
        "documentNamespace": f"{_NAMESPACE}/{title}-{digest}",
        "creationInfo": {"created": subject.created, "creators": ["Tool: penstock-release"]},
        "packages": [
            _image(subject),
            *(_package(identifier, material) for identifier, material in contained.items()),
        ],
        "relationships": [
            _relationship(_DOCUMENT, "DESCRIBES", _IMAGE),
            *(_relationship(_IMAGE, "CONTAINS", identifier) for identifier in contained),
        ],
    }
    return f"{json.dumps(content, indent=2, sort_keys=True)}\n".encode()


def _image(subject: Subject) -> Mapping[str, Any]:
    version = subject.digest.replace(":", "%3A")
    material = Material(
        purl=f"pkg:oci/{subject.name}@{version}?arch={subject.architecture}&tag={subject.version}",
        name=subject.name,
        version=subject.version,
        sha256=subject.digest.removeprefix("sha256:"),
        licence=subject.licence,
    )
    return {**_package(_IMAGE, material), "primaryPackagePurpose": "CONTAINER"}


def _package(identifier: str, material: Material) -> Mapping[str, Any]:
    checksum = {"algorithm": "SHA256", "checksumValue": material.sha256}
    return {
        "SPDXID": identifier,
        "name": material.name,
        "versionInfo": material.version,
        # Locks name no registry: whichever has what the checksum says.
        "downloadLocation": _UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": _UNKNOWN,
        "licenseDeclared": material.licence or _UNKNOWN,
        "copyrightText": _UNKNOWN,
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": material.purl,
            }
        ],
        **({"checksums": [checksum]} if material.sha256 else {}),
    }


def _identifier(material: Material) -> str:
    """Return a name that differs from others even where only forbidden characters differ."""
    legible = _NOT_ALLOWED.sub("-", f"{material.name}-{material.version}")
    return f"SPDXRef-{legible}-{sha256(material.purl.encode()).hexdigest()[:8]}"


def _relationship(element: str, kind: str, related: str) -> Mapping[str, str]:
    return {
        "spdxElementId": element,
        "relationshipType": kind,
        "relatedSpdxElement": related,
    }
