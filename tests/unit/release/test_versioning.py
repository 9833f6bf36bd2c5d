"""The version where it is written, and the changelog of a release."""

import pytest

from release import product, versioning
from release.errors import ReleaseError

CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n### Added\n- One.\n\n## 0.1.0 - 2026-01-01\n\n- Zero.\n"
)


@pytest.mark.parametrize("path", versioning.PLACES)
def test_every_place_takes_a_version(path: str) -> None:
    text = (product.ROOT / path).read_text()
    current = versioning.read((product.ROOT / versioning.PROJECT).read_text())

    changed = versioning.written(path, text, "7.8.9")

    assert changed.replace("7.8.9", current) == text
    assert "7.8.9" in changed


def test_no_other_manifest_names_the_version() -> None:
    current = versioning.read((product.ROOT / versioning.PROJECT).read_text())
    files = [
        path
        for folder in ("base", "components", "overlays", "tenant")
        for path in (product.ROOT / "deploy" / folder).rglob("*.yaml")
    ]

    found = {
        str(path.relative_to(product.ROOT)) for path in files if f"v{current}" in path.read_text()
    }

    assert found <= set(versioning.PLACES)


def test_a_file_without_a_version_is_named() -> None:
    with pytest.raises(ReleaseError, match=r"deploy/Containerfile names no version"):
        versioning.written("deploy/Containerfile", "FROM scratch\n", "1.0.0")


@pytest.mark.parametrize("version", ["", "1", "v1.0.0", "1.0.0-rc.1", "01.0.0", "1.0.0\n"])
def test_a_version_that_is_not_written_alike_everywhere_is_refused(version: str) -> None:
    with pytest.raises(ReleaseError, match=r"MAJOR\.MINOR\.PATCH"):
        versioning.require(version)


def test_unreleased_changes_become_those_of_the_version() -> None:
    assert versioning.cut(CHANGELOG, "0.2.0", "2026-02-03") == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-02-03\n\n### Added\n- One.\n\n"
        "## 0.1.0 - 2026-01-01\n\n- Zero.\n"
    )
    assert versioning.is_cut(CHANGELOG, "0.1.0")
    assert not versioning.is_cut(CHANGELOG, "0.2.0")


def test_a_release_without_changes_is_refused() -> None:
    cut = versioning.cut(CHANGELOG, "0.2.0", "2026-02-03")

    with pytest.raises(ReleaseError, match="write down what users notice"):
        versioning.cut(cut, "0.3.0", "2026-02-04")
