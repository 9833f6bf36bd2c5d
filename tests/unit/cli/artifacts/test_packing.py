"""Which local files become a layer."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from cli import errors
from cli.artifacts import packing, pulling


def packed(path: Path | str, *ignored: str, resolve: bool = False, stdin: bytes = b"") -> set[str]:
    rules = ignored or packing.IGNORED
    with packing.packed(str(path), BytesIO(stdin), ignored=rules, resolve=resolve) as content:
        return set(pulling.contents(content.file))


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    (root / ".git").mkdir()
    for name in ("app.yaml", "sub/more.yaml", "logo.png", ".git/config", ".sops.yaml"):
        (root / name).write_text(name)
    (root / "link.yaml").symlink_to("app.yaml")
    return root


def test_what_flux_leaves_out_is_left_out(tree: Path) -> None:
    assert packed(tree) == {"app.yaml", "sub/more.yaml", ".sops.yaml"}


def test_own_patterns_replace_those_for_images(tree: Path) -> None:
    assert packed(tree, "sub/") == {"app.yaml", "logo.png", ".sops.yaml"}


def test_patterns_may_stand_in_one_list(tree: Path) -> None:
    assert packed(tree, "sub/, logo.png") == {"app.yaml", ".sops.yaml"}


def test_single_file_keeps_its_name(tree: Path) -> None:
    assert packed(tree / "app.yaml") == {"app.yaml"}


def test_links_become_what_they_lead_to(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "base.yaml").write_text("base")
    (tree / "shared").symlink_to(tmp_path / "shared")

    found = packed(tree, resolve=True)

    assert {"link.yaml", "shared/base.yaml"} <= found


@pytest.mark.parametrize(
    ("target", "complaint"), [(".", "leads back"), ("none", "is a broken link")]
)
def test_link_that_cannot_be_followed_is_named(tree: Path, target: str, complaint: str) -> None:
    (tree / "bad").symlink_to(target)

    with pytest.raises(errors.UsageError, match=f"bad {complaint}"):
        packed(tree, resolve=True)


def test_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="--path: there is no"):
        packed(tmp_path / "none")


def test_bad_pattern_names_the_flag(tree: Path) -> None:
    with pytest.raises(errors.UsageError, match="--ignore-paths"):
        packed(tree, "[" * 5000)
