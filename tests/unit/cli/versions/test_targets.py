"""The versions that are written are some that both serve."""

from cli.versions import targets
from crds import KINDS


def test_every_version_is_one_of_the_kind() -> None:
    known = {
        (kind.group, kind.kind): {kind.version, *(old.version for old in kind.older)}
        for kind in KINDS
    }

    for table in targets.TABLES.values():
        assert all(version in known[key] for key, version in table.items())


def test_flux_has_v1_of_images_since_27() -> None:
    images = ("image.toolkit.fluxcd.io", "ImagePolicy")

    assert [targets.TABLES[each][images] for each in ("2.6", "2.7")] == ["v1beta2", "v1"]
