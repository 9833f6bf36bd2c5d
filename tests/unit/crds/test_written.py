"""One way to write what is generated, and to tell that it was not written."""

from pathlib import Path

import pytest

from crds import written

FILES = {Path("docs/a.md"): "one\ntwo\n", Path("docs/b.md"): "b\n"}


def test_an_unknown_word_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert written.main(["genrate"], FILES) == 2
    assert written.main([], FILES) == 2

    assert not (written.ROOT / "docs/a.md").exists()
    assert capsys.readouterr().err == "usage: generate|check\n" * 2


def test_a_stale_file_fails_the_check_and_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    readme = {Path("README.md"): (written.ROOT / "README.md").read_text()}
    assert written.main(["check"], readme) == 0

    assert written.main(["check"], FILES) == 1

    shown = capsys.readouterr()
    assert "--- docs/a.md\n" in shown.out
    assert "+two\n" in shown.out
    assert "make generate" in shown.err


def test_only_where_all_is_generated_other_files_go(tmp_path: Path) -> None:
    written.write(FILES, root=tmp_path)
    other = tmp_path / "docs/other.md"
    other.write_text("mine")

    assert list(written.differences(FILES, root=tmp_path)) == []
    assert list(written.differences(FILES, whole=("docs/*.md",), root=tmp_path)) == [
        "docs/other.md is no longer generated\n"
    ]

    written.write(FILES, root=tmp_path)
    assert other.exists()
    written.write(FILES, whole=("docs/*.md",), root=tmp_path)
    assert not other.exists()
