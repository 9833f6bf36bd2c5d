"""What goes into an artifact, as Flux decides it."""

import os
from pathlib import Path

import pytest

from toolkit.artifact.ignore import MAX_FILE, MAX_RULES, Ignore
from toolkit.errors import StalledError, TransientError


def plant(tree: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def kept(tree: Path, rules: str | None = None) -> list[str]:
    return [entry.name for entry in Ignore.from_rules(rules).walk(tree) if not entry.is_directory]


VCS = {".git/config": "", ".gitignore": "*", ".gitmodules": "", "a/.gitattributes": ""}
NOT_SOURCE = {
    "logo.png": "", "a/photo.jpg": "", "old.tar.gz": "", "x.zip": "", ".github/workflows/x.yml": "",
    ".travis.yml": "", "a/.sops.yaml": "", ".flux.yaml": "", ".goreleaser.yml": "",
}  # fmt: skip


def test_without_rules_media_archives_and_ci_stay_out(tmp_path: Path) -> None:
    plant(tmp_path, VCS | NOT_SOURCE | {"a/deploy.yaml": "", "readme.md": "", "x.tar": ""})

    assert kept(tmp_path) == ["a/deploy.yaml", "readme.md", "x.tar"]


@pytest.mark.parametrize("rules", ["", "# nothing\n\n"])
def test_empty_rules_are_no_rules(tmp_path: Path, rules: str) -> None:
    plant(tmp_path, NOT_SOURCE | {"a.yaml": ""})

    assert kept(tmp_path, rules) == ["a.yaml"]


def test_rules_of_the_spec_replace_the_defaults_but_not_version_control(tmp_path: Path) -> None:
    plant(tmp_path, VCS | {"logo.png": "", "a.md": "", "b.yaml": ""})

    assert kept(tmp_path, "*.md") == ["b.yaml", "logo.png"]


def test_rules_of_a_file_replace_the_defaults_wherever_it_lies(tmp_path: Path) -> None:
    plant(tmp_path, {"logo.png": "", "deep/er/.sourceignore": "*.md", "deep/er/a.md": ""})

    assert kept(tmp_path) == ["deep/er/.sourceignore", "logo.png"]


def test_a_file_speaks_for_its_own_directory_and_below(tmp_path: Path) -> None:
    plant(tmp_path, {"x.md": "", "a/x.md": "", "a/b/x.md": "", "a/.sourceignore": "*.md\n/top"})
    plant(tmp_path, {"a/top": "", "a/b/top": "", "top": ""})

    assert kept(tmp_path) == ["a/.sourceignore", "a/b/top", "top", "x.md"]


def test_the_deeper_file_wins_over_the_higher_and_the_spec_over_both(tmp_path: Path) -> None:
    plant(tmp_path, {".sourceignore": "*.md", "a/.sourceignore": "!*.md", "a/x.md": "", "x.md": ""})

    assert kept(tmp_path) == [".sourceignore", "a/.sourceignore", "a/x.md"]
    assert kept(tmp_path, "x.md") == [".sourceignore", "a/.sourceignore"]
    assert kept(tmp_path, "!x.md") == [".sourceignore", "a/.sourceignore", "a/x.md", "x.md"]


def test_everything_but_one_directory_can_be_left_out(tmp_path: Path) -> None:
    plant(tmp_path, {"deploy/a.yaml": "", "deploy/x/b.md": "", "src/main.go": "", "readme": ""})

    assert kept(tmp_path, "/*\n!/deploy\n/deploy/**/*.md") == ["deploy/a.yaml"]


def test_a_file_below_an_excluded_directory_can_be_brought_back(tmp_path: Path) -> None:
    plant(tmp_path, {"vendor/a.yaml": "", "vendor/deep/keep.yaml": "", "b.yaml": ""})

    assert kept(tmp_path, "vendor/\n!keep.yaml") == ["b.yaml", "vendor/deep/keep.yaml"]


def test_version_control_can_be_brought_back_except_the_repository_itself(tmp_path: Path) -> None:
    plant(tmp_path, VCS)

    assert kept(tmp_path, "!.gitignore\n!.git") == [".gitignore"]


def test_links_and_special_files_are_passed_over(tmp_path: Path) -> None:
    plant(tmp_path, {"real/a": ""})
    (tmp_path / "file").symlink_to("real/a")
    (tmp_path / "directory").symlink_to("real")
    (tmp_path / "dangling").symlink_to("/nowhere")
    os.mkfifo(tmp_path / "pipe")

    assert kept(tmp_path) == ["real/a"]


def test_a_linked_rule_file_is_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("*")
    tree = tmp_path / "tree"
    plant(tree, {"a.yaml": ""})
    (tree / ".sourceignore").symlink_to(outside)

    assert kept(tree) == ["a.yaml"]


def test_directories_come_before_their_content_in_order(tmp_path: Path) -> None:
    plant(tmp_path, {"b/z": "", "b/a": "", "a.b": "", "a/x": ""})

    names = [entry.name for entry in Ignore.from_rules(None).walk(tmp_path)]

    assert names == ["a", "a/x", "a.b", "b", "b/a", "b/z"]


def test_a_bad_rule_in_the_spec_stalls() -> None:
    with pytest.raises(StalledError, match=r"line 2 of 'spec\.ignore'") as error:
        Ignore.from_rules("*.md\n[oops")

    assert error.value.reason == "SourceIgnoreError"


def test_a_bad_rule_in_a_file_is_retried_with_the_next_commit(tmp_path: Path) -> None:
    plant(tmp_path, {"a/.sourceignore": "\n\n[oops"})

    with pytest.raises(TransientError, match=r"line 3 of 'a/\.sourceignore'") as error:
        kept(tmp_path)

    assert error.value.reason == "SourceIgnoreError"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a\n" * (MAX_RULES + 1), f"has more than {MAX_RULES} lines"),
        ("#" * (MAX_FILE + 1), f"is larger than {MAX_FILE >> 10} KiB"),
    ],
)
def test_a_rule_file_has_its_limits(tmp_path: Path, text: str, complaint: str) -> None:
    plant(tmp_path, {".sourceignore": text})

    with pytest.raises(TransientError, match=rf"'\.sourceignore' {complaint}") as error:
        kept(tmp_path)

    assert error.value.reason == "SourceIgnoreError"


def test_many_rule_files_have_a_limit_together(tmp_path: Path) -> None:
    plant(tmp_path, {f"{i}/.sourceignore": "a\n" * (MAX_RULES // 2) for i in range(3)})

    with pytest.raises(TransientError, match="more than 2000 ignore rules"):
        kept(tmp_path)


def test_windows_line_ends_and_a_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / ".sourceignore").write_bytes(b"\xef\xbb\xbf*.md\r\n*.txt\r\n")
    plant(tmp_path, {"a.md": "", "b.txt": "", "c": ""})

    assert kept(tmp_path) == [".sourceignore", "c"]


def test_depth_does_not_matter(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 400)
    (tmp_path / deep).mkdir(parents=True)

    assert sum(1 for _ in Ignore.from_rules(None).walk(tmp_path)) == 400
