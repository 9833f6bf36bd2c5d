"""The whole image, twice."""

import json
from collections import Counter

import pytest

from release import building, debian, wheels

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # it may have to download first


def test_same_sources_give_the_same_image(built_image: building.Image) -> None:
    again = building.build(built_image.architecture, cached=False)

    assert again.packed.digest == built_image.packed.digest
    assert again.packed.archive == built_image.packed.archive
    assert again.sbom == built_image.sbom


def test_nothing_in_the_image_is_a_shell_or_runs_as_another_user(
    built_image: building.Image,
) -> None:
    tree = {path: node for part in built_image.parts for path, node in part.tree.items()}

    assert [path for path in tree if path.startswith("usr/bin/")] == [
        "usr/bin/python3.11",
        "usr/bin/python",
        "usr/bin/python3",
    ]
    assert not any(path.startswith(("usr/sbin/", "bin/", "sbin/")) for path in tree)
    assert not any(node.mode & 0o6000 for node in tree.values())
    assert b"nobody:x:65534:" in tree["etc/passwd"].content


def test_every_module_has_its_bytecode(built_image: building.Image) -> None:
    tree = {path: node for part in built_image.parts for path, node in part.tree.items()}
    modules = {path for path in tree if path.endswith(".py")}

    bytecode = {path for path in tree if path.endswith(".cpython-311.pyc")}

    assert len(bytecode) == len(modules)
    # PEP 552: the hash of the source is in it, and is not checked.
    assert {tree[path].content[4:8] for path in bytecode} == {b"\x01\x00\x00\x00"}


def test_image_is_as_small_as_promised(built_image: building.Image) -> None:
    assert len(built_image.packed.archive) < 100_000_000


def test_public_authorities_are_where_openssl_and_go_look(built_image: building.Image) -> None:
    tree = built_image.parts[0].tree

    assert tree["usr/lib/ssl/cert.pem"].target == "/etc/ssl/certs/ca-certificates.crt"
    assert tree["etc/ssl/certs/ca-certificates.crt"].content.count(b"BEGIN CERTIFICATE") > 100


def test_list_of_materials_names_all_that_is_locked(built_image: building.Image) -> None:
    packages = json.loads(built_image.sbom)["packages"]
    purls = [package["externalRefs"][0]["referenceLocator"] for package in packages]
    counts = Counter(purl.partition("/")[0] for purl in purls)

    assert counts["pkg:deb"] == len(debian.locked(built_image.architecture))
    assert counts["pkg:pypi"] == wheels.LOCK.read_text().count("==")
    assert counts["pkg:golang"] > 100
    assert {purl for purl in purls if "pkg:oci/" in purl} == {purls[0]}
    assert built_image.packed.digest.removeprefix("sha256:") in purls[0]
