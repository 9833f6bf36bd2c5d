"""Ciphertext is found wherever it lies in a file."""

from pathlib import Path

import pytest

from toolkit.artifact import scan

VALUE = b"ENC[AES256_GCM,data:x,iv:x,tag:x,type:str]"


async def test_files_with_ciphertext_are_named_by_their_path(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "secret.yaml").write_bytes(b"x: " + VALUE)
    (tmp_path / "blob.json").write_bytes(b'{"data": "' + VALUE + b'"}')
    (tmp_path / "plain.yaml").write_bytes(b"ENC[AES128, nothing")
    (tmp_path / "empty").write_bytes(b"")

    assert await scan.suspects(tmp_path) == {"a/b/secret.yaml", "blob.json"}


@pytest.mark.parametrize("offset", [*range((1 << 20) - 16, (1 << 20) + 2), 0])
async def test_a_value_across_two_chunks_is_found(tmp_path: Path, offset: int) -> None:
    (tmp_path / "x").write_bytes(b"." * offset + VALUE + b"." * 10)

    assert await scan.suspects(tmp_path) == {"x"}


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(VALUE)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to("../outside")

    assert await scan.suspects(tmp_path / "tree") == frozenset()


async def test_a_directory_that_is_left_out_is_not_looked_into(tmp_path: Path) -> None:
    for folder in (".git", "app/.git", "app"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "x").write_bytes(VALUE)

    assert await scan.suspects(tmp_path, omitted=".git") == {"app/x"}
