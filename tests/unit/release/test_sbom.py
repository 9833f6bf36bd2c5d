"""The list of materials: what SPDX 2.3 demands of a document, and what is in ours."""

import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from release import materials, sbom
from release.materials import Material

SUBJECT = sbom.Subject(
    name="penstock",
    version="v1.0.0",
    architecture="amd64",
    digest=f"sha256:{'a' * 64}",
    licence="Apache-2.0",
    created="1970-01-01T00:00:00Z",
)
MATERIALS = (
    Material(
        purl="pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64&distro=debian-12",
        name="libstdc++6",
        version="12.2.0-14",
        sha256="b" * 64,
    ),
    Material(
        purl="pkg:pypi/aiohttp@3", name="aiohttp", version="3", sha256="c" * 64, licence="MIT"
    ),
    # They differ in a character that identifiers cannot have.
    Material(purl="pkg:golang/a/b@v1", name="a/b", version="v1", sha256="d" * 64),
    Material(purl="pkg:golang/a_b@v1", name="a_b", version="v1", sha256="e" * 64),
    Material(purl="pkg:golang/stdlib@1.26", name="stdlib", version="1.26"),
)
INFORMATION = (
    "/cache/libengine.so: go1.26.8\n"
    "\tpath\tpenstock.dev/engine\n"
    "\tmod\tpenstock.dev/engine\t(devel)\t\n"
    "\tdep\tdario.cat/mergo\tv1.0.1\th1:Ra4+bf83h2ztPIQYNP99R6m+Y7KfnARDfID+a+vLl4s=\n"
    "\tdep\texample.com/old\tv1.0.0\n"
    "\t=>\texample.com/New\tv2.0.0+incompatible\th1:hbzdQOJkuaMEpRCLSN1/C5DX74RPcNCk6oqhKMXmZi0=\n"
    "\tbuild\t-buildmode=c-shared\n"
)


@pytest.fixture
def written() -> Any:
    return json.loads(sbom.document(SUBJECT, MATERIALS))


def test_document_says_what_the_specification_demands(written: Any) -> None:
    # Clause 6: document creation information.
    assert written["spdxVersion"] == "SPDX-2.3"
    assert written["dataLicense"] == "CC0-1.0"
    assert written["SPDXID"] == "SPDXRef-DOCUMENT"
    assert written["name"]
    namespace = urlsplit(written["documentNamespace"])
    assert namespace.scheme
    assert not namespace.fragment
    assert re.fullmatch(r"(Tool|Person|Organization): .+", written["creationInfo"]["creators"][0])
    assert re.fullmatch(r"[-\d]{10}T[:\d]{8}Z", written["creationInfo"]["created"])


def test_every_package_says_what_the_specification_demands(written: Any) -> None:
    identifiers = [package["SPDXID"] for package in written["packages"]]
    purls = [package["externalRefs"][0]["referenceLocator"] for package in written["packages"]]

    # Clause 7: package information.
    assert len(set(identifiers)) == len(MATERIALS) + 1
    assert all(re.fullmatch(r"SPDXRef-[a-zA-Z0-9.-]+", each) for each in identifiers)
    for package in written["packages"]:
        assert package["name"]
        assert package["downloadLocation"] == "NOASSERTION"
        assert package["filesAnalyzed"] is False
        for checksum in package.get("checksums", ()):
            assert checksum["algorithm"] == "SHA256"
            assert re.fullmatch("[0-9a-f]{64}", checksum["checksumValue"])
    assert purls[1:] == [material.purl for material in MATERIALS]
    assert [each["name"] for each in written["packages"] if "checksums" not in each] == ["stdlib"]
    assert [each["licenseDeclared"] for each in written["packages"]][:3] == [
        "Apache-2.0",
        "NOASSERTION",
        "MIT",
    ]


def test_document_describes_the_image_that_contains_the_rest(written: Any) -> None:
    image, *others = [package["SPDXID"] for package in written["packages"]]
    rows = [
        (row["spdxElementId"], row["relationshipType"], row["relatedSpdxElement"])
        for row in written["relationships"]
    ]

    # Clause 11: relationships.
    assert rows == [
        ("SPDXRef-DOCUMENT", "DESCRIBES", image),
        *((image, "CONTAINS", other) for other in others),
    ]
    assert written["packages"][0]["primaryPackagePurpose"] == "CONTAINER"
    assert written["packages"][0]["checksums"][0]["checksumValue"] == "a" * 64


def test_same_materials_give_the_same_document() -> None:
    assert sbom.document(SUBJECT, MATERIALS) == sbom.document(SUBJECT, list(MATERIALS))


def test_modules_of_an_engine_are_read_with_their_replacements() -> None:
    found = list(materials.in_engine(INFORMATION))

    assert [(each.name, each.version, each.purl) for each in found] == [
        ("stdlib", "1.26.8", "pkg:golang/stdlib@1.26.8"),
        ("dario.cat/mergo", "v1.0.1", "pkg:golang/dario.cat/mergo@v1.0.1"),
        (
            "example.com/New",
            "v2.0.0+incompatible",
            "pkg:golang/example.com/New@v2.0.0%2Bincompatible",
        ),
    ]
    assert found[1].sha256 == "45ae3e6dff37876ced3c841834ff7d47a9be63b29f9c04437c80fe6bebcb978b"
