"""Generated files are complete, stable, and noticed when they are not what would be written."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from crds import generate, written


@functools.cache
def outputs() -> Mapping[Path, str]:
    """Generate once: it takes a second, and gives the same each time."""
    return generate.outputs()


def write(root: Path) -> None:
    written.write(outputs(), whole=generate.WHOLE, root=root)


def differences(root: Path) -> Iterator[str]:
    return written.differences(outputs(), whole=generate.WHOLE, root=root)


def test_generating_again_gives_the_same(tmp_path: Path) -> None:
    write(tmp_path)

    again = generate.outputs()

    assert list(written.differences(again, whole=generate.WHOLE, root=tmp_path)) == []


def test_the_files_in_the_repository_are_up_to_date() -> None:
    assert list(differences(written.ROOT)) == []


def test_an_edited_file_is_shown_as_a_diff(tmp_path: Path) -> None:
    write(tmp_path)
    page = tmp_path / "docs/api/README.md"
    page.write_text(page.read_text().replace("# API reference", "# Something else"))

    assert "-# Something else\n" in list(differences(tmp_path))


def test_a_missing_file_is_a_difference(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "crds/yaml/kustomization.yaml").unlink()

    assert any("kustomization.yaml" in line for line in differences(tmp_path))


def test_a_file_that_is_no_longer_generated_is_noticed_and_removed(tmp_path: Path) -> None:
    write(tmp_path)
    stale = tmp_path / "crds/yaml/gone.yaml"
    stale.write_text("{}")

    noticed = list(differences(tmp_path))
    write(tmp_path)

    assert noticed == ["crds/yaml/gone.yaml is no longer generated\n"]
    assert not stale.exists()


def test_the_kustomization_lists_every_definition(tmp_path: Path) -> None:
    write(tmp_path)

    listed = yaml.safe_load((tmp_path / "crds/yaml/kustomization.yaml").read_text())["resources"]

    definitions = {path.name for path in (tmp_path / "crds/yaml").glob("*_*.yaml")}
    assert set(listed) == definitions


def test_definitions_can_be_shown_for_a_cluster_without_a_gate() -> None:
    shown = [yaml.safe_load(text) for text in generate.definitions(gate=False)]

    unserved = {
        (crd["spec"]["names"]["kind"], version["name"])
        for crd in shown
        for version in crd["spec"]["versions"]
        if not version["served"]
    }
    assert ("GitRepository", "v1beta1") in unserved
    assert {version for _, version in unserved} == {"v1beta1"}
