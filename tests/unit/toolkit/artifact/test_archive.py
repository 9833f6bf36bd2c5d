"""Equal trees give equal bytes; nothing hostile comes out of a tarball."""

import contextlib
import gzip
import hashlib
import io
import os
import re
import secrets
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.artifact import archive
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.limits import Limits
from toolkit.errors import TransientError

EVERYTHING = Ignore.from_rules("!*")
LONG = "directory-" * 12 + "/" + "file-" * 40


def packed(tree: Path, ignore: Ignore = EVERYTHING) -> bytes:
    out = io.BytesIO()
    result = archive.pack(tree, out, ignore)
    assert result.size == len(out.getvalue())
    assert result.digest == f"sha256:{hashlib.sha256(out.getvalue()).hexdigest()}"
    return out.getvalue()


def plant(tree: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tree


def read(tree: Path) -> dict[str, bytes]:
    return {
        path.relative_to(tree).as_posix(): path.read_bytes()
        for path in tree.rglob("*")
        if path.is_file()
    }


FILES = {"a.yaml": b"a", "dir/b.yaml": b"b" * 1000, "dir/sub/c": b"", "z": bytes(512), LONG: b"x"}


def test_equal_trees_give_equal_bytes_however_they_came_about(tmp_path: Path) -> None:
    one = plant(tmp_path / "one", FILES)
    two = plant(tmp_path / "two", dict(reversed(FILES.items())))
    os.utime(two / "a.yaml", (1, 1))
    (two / "a.yaml").chmod(0o644)
    (one / "a.yaml").chmod(0o600)

    assert packed(one) == packed(two)


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / "a.yaml").write_bytes(b"A"),
        lambda tree: (tree / "a.yaml").rename(tree / "b.yaml"),
        lambda tree: (tree / "a.yaml").chmod(0o755),
        lambda tree: (tree / "empty").mkdir(),
    ],
)
def test_every_difference_shows(tmp_path: Path, change: Callable[[Path], object]) -> None:
    tree = plant(tmp_path / "tree", FILES)
    before = packed(tree)

    change(tree)

    assert packed(tree) != before


def test_the_form_is_that_of_flux(tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", {"run.sh": b"#!", "dir/a.yaml": b"a"})
    (tree / "run.sh").chmod(0o755)
    (tree / "link").symlink_to("run.sh")

    data = packed(tree)

    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = tar.getmembers()
    assert [(m.name, m.type, m.mode) for m in members] == [
        ("dir", tarfile.DIRTYPE, 0o750),
        ("dir/a.yaml", tarfile.REGTYPE, 0o600),
        ("run.sh", tarfile.REGTYPE, 0o700),
    ]
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {(0, 0, "", "", 0)}
    assert data[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"  # gzip, no name, no time


def test_what_is_ignored_is_not_packed(tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", FILES | {"notes.md": b"x"})

    assert packed(tree, Ignore.from_rules("*.md")) == packed(plant(tmp_path / "clean", FILES))


names = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=40).filter(
        lambda name: name not in (".", "..") and len(name.encode()) < 200 and name != ".git"
    ),
    min_size=1,
    max_size=4,
).map("/".join)


@settings(max_examples=60, deadline=None)
@given(names=st.sets(names, max_size=6), size=st.integers(0, 3000))
def test_what_is_packed_unpacks_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], size: int
) -> None:
    base = tmp_path_factory.mktemp("round")
    tree = base / "tree"
    tree.mkdir()
    for name in names:
        if not any(other.startswith(f"{name}/") for other in names):
            plant(tree, {name: secrets.token_bytes(size)})
    (base / "packed").write_bytes(packed(tree))

    used = archive.unpack(base / "packed", base / "out")

    assert read(base / "out") == read(tree)
    assert used == sum(map(len, read(tree).values()))
    shutil.rmtree(base)


def test_names_that_are_not_utf_8_survive(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    name = os.fsdecode(b"caf\xe9" + b"x" * 120)
    (tree / name).write_bytes(b"x")
    (tmp_path / "packed").write_bytes(packed(tree))

    archive.unpack(tmp_path / "packed", tmp_path / "out")

    assert read(tmp_path / "out") == {name: b"x"}


def test_executables_stay_executable_and_nothing_is_for_others(tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", {"run.sh": b"", "a": b""})
    (tree / "run.sh").chmod(0o777)
    (tmp_path / "packed").write_bytes(packed(tree))

    archive.unpack(tmp_path / "packed", tmp_path / "out")

    assert (tmp_path / "out" / "run.sh").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "out" / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("files", "bounds", "complaint"),
    [
        ({"a": b"", "b": b"", "c": b""}, Limits(entries=2), "more than 2 files"),
        ({"a": bytes(2 << 20)}, Limits(file_bytes=1 << 20), "'a' is larger than 1 MiB"),
        ({"a": bytes(1 << 20), "b": b"x"}, Limits(total_bytes=1 << 20), "larger than 1 MiB"),
        ({"a/b/c": b""}, Limits(depth=2), "'a/b/c' lies deeper than 2"),
    ],
)
def test_both_sides_have_the_same_limits(
    tmp_path: Path, files: dict[str, bytes], bounds: Limits, complaint: str
) -> None:
    tree = plant(tmp_path / "tree", files)
    (tmp_path / "packed").write_bytes(packed(tree))

    with pytest.raises(TransientError, match=complaint):
        archive.pack(tree, io.BytesIO(), EVERYTHING, bounds=bounds)
    with pytest.raises(TransientError, match=complaint):
        archive.unpack(tmp_path / "packed", tmp_path / "out", bounds)


def test_a_sparse_file_is_refused_by_its_size_not_by_its_blocks(tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", {"big": b""})
    os.truncate(tree / "big", 1 << 30)

    with pytest.raises(TransientError, match="'big' is larger than 512 MiB"):
        archive.pack(tree, io.BytesIO(), EVERYTHING)


def test_a_file_that_becomes_a_link_while_packing_is_not_followed(tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", {"a": b"a", "b": b"b"})

    class Swapping(Ignore):
        def walk(self, tree: Path) -> object:  # type: ignore[override]
            for entry in super().walk(tree):
                (tree / "b").unlink(missing_ok=True)
                (tree / "b").symlink_to("/etc/passwd")
                yield entry

    with pytest.raises(OSError, match="symbolic links"):
        archive.pack(tree, io.BytesIO(), Swapping(EVERYTHING.rules))


def made(*members: tuple[str, bytes, bytes], link: str = "", **fields: object) -> bytes:
    """Return a gzipped tarball of (name, type, content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(content), link
            for field, value in fields.items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def unpack(tmp_path: Path, data: bytes, bounds: Limits | None = None) -> dict[str, bytes]:
    """Unpack, and require that a mere check comes to the same end."""
    file, bounds = tmp_path / "packed", bounds or Limits()
    file.write_bytes(data)
    try:
        size = archive.unpack(file, tmp_path / "out", bounds)
    except TransientError as error:
        with pytest.raises(TransientError, match=re.escape(str(error))):
            archive.check(file, bounds)
        raise
    assert archive.check(file, bounds) == size
    return read(tmp_path / "out")


FILE, DIRECTORY = tarfile.REGTYPE, tarfile.DIRTYPE


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/x", "a/..", "..", "/"])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TransientError, match="points outside"):
        unpack(tmp_path, made((name, FILE, b"x")))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "packed"]


@pytest.mark.parametrize("name", ["x" * 256, "ä" * 128, "/".join(["x" * 200] * 16)])
def test_a_name_that_no_disk_takes_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TransientError, match="is too long"):
        unpack(tmp_path, made((name, FILE, b"x")))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a named pipe"),
        (b"S", "a sparse file"),
        (b"V", "unknown"),
        (b"?", "unknown"),
    ],
)
def test_what_is_neither_file_directory_nor_link_is_refused_by_name(
    tmp_path: Path, kind: bytes, told: str
) -> None:
    with pytest.raises(TransientError, match=rf"entry 'b\\x1b' .* it is {told}"):
        unpack(tmp_path, made(("a", FILE, b"x"), ("b\x1b", kind, b""), link="a"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_a_link_is_passed_over_and_never_written_through(tmp_path: Path, kind: bytes) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    data = made(("a", kind, b""), ("a/x", FILE, b"x"), link=str(outside))

    assert unpack(tmp_path, data) == {"a/x": b"x"}
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("name", ["../x", "/etc/x"])
def test_a_link_that_leads_out_by_its_name_is_refused(
    tmp_path: Path, kind: bytes, name: str
) -> None:
    with pytest.raises(TransientError, match="points outside"):
        unpack(tmp_path, made((name, kind, b""), link="a"))


def test_a_hard_link_holds_no_content(tmp_path: Path) -> None:
    """Some programs write the size of the file that it links to."""
    header = tarfile.TarInfo("hard")
    header.type, header.linkname, header.size = tarfile.LNKTYPE, "a", 3
    after = tarfile.TarInfo("b")
    after.size = 1
    data = header.tobuf() + after.tobuf() + b"b".ljust(512, b"\0") + bytes(1024)

    assert unpack(tmp_path, gzip.compress(data)) == {"b": b"b"}


@pytest.mark.parametrize(
    "members",
    [
        (("a", FILE, b"1"), ("a", FILE, b"2")),
        (("a", FILE, b"1"), ("./a", FILE, b"2")),
        (("a", FILE, b"1"), ("a/b", FILE, b"2")),
        (("a/b", FILE, b"1"), ("a", FILE, b"2")),
        (("a", FILE, b"1"), ("a", DIRECTORY, b"")),
        ((".", FILE, b"1"),),
    ],
)
def test_nothing_is_written_twice(
    tmp_path: Path, members: tuple[tuple[str, bytes, bytes], ...]
) -> None:
    with pytest.raises(TransientError, match="occurs twice"):
        unpack(tmp_path, made(*members))


def test_tarballs_of_others_are_understood(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        for name, content in ((".", b""), ("./a", b"1"), (LONG, b"2"), ("d/", b""), ("d/b", b"3")):
            info = tarfile.TarInfo(name)
            info.type = DIRECTORY if name in (".", "d/") else FILE
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    whole = {"a": b"1", LONG: b"2", "d/b": b"3"}

    assert unpack(tmp_path, out.getvalue()) == whole


def test_a_commit_in_a_global_header_is_passed_over(tmp_path: Path) -> None:
    out = io.BytesIO()
    headers = {"comment": "0123abcd"}
    with tarfile.open(
        fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers=headers
    ) as tar:
        info = tarfile.TarInfo("a")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))

    assert unpack(tmp_path, out.getvalue()) == {"a": b"x"}


def test_gzip_files_strung_together_are_one(tmp_path: Path) -> None:
    tar = gzip.decompress(made(("a", FILE, b"x" * 2000)))

    data = gzip.compress(tar[:700]) + gzip.compress(tar[700:])

    assert unpack(tmp_path, data) == {"a": b"x" * 2000}


def test_a_bomb_is_cut_before_it_bursts(tmp_path: Path) -> None:
    data = made(("a", FILE, bytes(50 << 20)))
    assert len(data) < 100_000

    with pytest.raises(TransientError, match="larger than"):
        unpack(tmp_path, data, Limits(total_bytes=1 << 20))

    assert read(tmp_path / "out") == {}


def test_a_bomb_of_headers_is_cut(tmp_path: Path) -> None:
    header = tarfile.TarInfo("link")
    header.type = tarfile.SYMTYPE
    data = gzip.compress(header.tobuf() * 100_000)

    with pytest.raises(TransientError, match="more than 100 files"):
        unpack(tmp_path, data, Limits(entries=100))


def test_a_bomb_of_extended_headers_is_cut(tmp_path: Path) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XGLTYPE, 512
    data = gzip.compress((header.tobuf() + bytes(512)) * 20_000)

    with pytest.raises(TransientError, match="unpacked artifact is too large"):
        unpack(tmp_path, data, Limits(entries=10, total_bytes=1000))


def test_an_extended_header_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 1 << 30

    with pytest.raises(TransientError, match="extended header is too long"):
        unpack(tmp_path, gzip.compress(header.tobuf()))


def test_many_long_extended_headers_are_refused(tmp_path: Path) -> None:
    records = b"65000 a=" + bytes([97]) * 64_991 + b"\n"
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(records)
    one = header.tobuf() + records.ljust(-len(records) % 512 + len(records), b"\0")

    with pytest.raises(TransientError, match="there are too many"):
        unpack(tmp_path, gzip.compress(one * 600, 1))


def test_directories_that_no_entry_names_count_too(tmp_path: Path) -> None:
    data = made(*((f"{number}/b/c/d/e", FILE, b"") for number in range(30)))

    with pytest.raises(TransientError, match="more than 100 files"):
        unpack(tmp_path, data, Limits(entries=100))
    shutil.rmtree(tmp_path / "out")
    assert len(unpack(tmp_path, data, Limits(entries=150))) == 30


def test_paths_have_a_length_together(tmp_path: Path) -> None:
    deep = "/".join(["x" * 49] * 60)
    data = made(*((f"{number:04}{deep}", FILE, b"") for number in range(400)))

    with pytest.raises(TransientError, match="too long together"):
        check(tmp_path, data)


@pytest.mark.parametrize(
    "records",
    [b"0 path=x\n", b"99 path=x\n", b"x path=x\n", b"10 path\n", b"11 path=xyz", b"9 size=x\n",
     b"10 size=-\n", b"3 =", b"99999999999999999999 path=x\n",
     b"-9 path=x\n", b"22 GNU.sparse.major=1\n"],
)  # fmt: skip
def test_a_malformed_extended_header_is_refused(tmp_path: Path, records: bytes) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(records)
    member = tarfile.TarInfo("a").tobuf()
    data = header.tobuf() + records.ljust(512, b"\0") + member + bytes(1024)

    with pytest.raises(TransientError, match=r"malformed|is invalid|not allowed"):
        unpack(tmp_path, gzip.compress(data))


WHOLE = made(("a/b", FILE, b"content" * 500), ("c", FILE, secrets.token_bytes(3000)))


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, len(WHOLE) - 30))
def test_a_truncated_tarball_is_refused(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    base = tmp_path_factory.mktemp("cut")

    with pytest.raises(TransientError, match="not a readable tarball"):
        unpack(base, WHOLE[:cut])


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, 2047), byte=st.integers(0, 255), noise=st.binary(max_size=64))
def test_damaged_headers_do_no_harm(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int, noise: bytes
) -> None:
    base = tmp_path_factory.mktemp("noise")
    tar = bytearray(gzip.decompress(WHOLE))
    tar[at : at + 1] = bytes([byte])
    tar[at + 40 : at + 40 + len(noise)] = noise

    with contextlib.suppress(TransientError):
        unpack(base, gzip.compress(bytes(tar)))

    assert sorted(path.name for path in base.iterdir()) == ["out", "packed"]
    shutil.rmtree(base)


@pytest.mark.parametrize(
    "data", [b"", b"PK\x03\x04 not gzip", gzip.compress(b"not a tarball" * 99, mtime=0)]
)
def test_what_is_no_tarball_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(TransientError, match="not a readable tarball"):
        unpack(tmp_path, data)


def check(tmp_path: Path, data: bytes, bounds: Limits | None = None) -> int:
    (tmp_path / "packed").write_bytes(data)
    return archive.check(tmp_path / "packed", bounds or Limits())


@pytest.mark.parametrize(
    "damaged",
    [WHOLE[:-1], WHOLE[:-9], WHOLE + b"x", WHOLE[:-8] + bytes(4) + WHOLE[-4:]],
    ids=["cut off by a byte", "no checksum", "something behind it", "wrong checksum"],
)
def test_a_check_goes_to_the_very_end(tmp_path: Path, damaged: bytes) -> None:
    assert check(tmp_path, WHOLE) == 3500 + 3000

    with pytest.raises(TransientError, match="not a readable tarball"):
        check(tmp_path, damaged)


def test_a_check_of_an_endless_end_ends(tmp_path: Path) -> None:
    endless = gzip.compress(bytes(1 << 20)) * 20

    with pytest.raises(TransientError, match="unpacked artifact is too large"):
        check(tmp_path, endless, Limits(entries=10, total_bytes=1000))


def test_names_in_messages_are_printable_and_short(tmp_path: Path) -> None:
    with pytest.raises(TransientError) as error:
        unpack(tmp_path, made(("../\x1b[31m" + "x" * 5000, FILE, b"")))

    assert len(str(error.value)) < 300
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize("place", ["", "dir", "dir/sub"])
def test_links_that_a_worker_left_lead_the_packer_nowhere(tmp_path: Path, place: str) -> None:
    outside = plant(tmp_path / "outside", {"token": b"secret", "sub/token": b"secret"})
    tree = tmp_path / "tree"
    link = tree / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)

    with contextlib.suppress(OSError):
        assert b"token" not in gzip.decompress(packed(tree))
    with pytest.raises(OSError, match="Not a directory"):
        archive.copy(link / "token", io.BytesIO())


def test_directory_that_becomes_a_link_while_it_is_packed_is_not_followed(tmp_path: Path) -> None:
    outside = plant(tmp_path / "outside", {"a": b"secret", "b": b"secret", "c/d": b"secret"})
    tree = plant(tmp_path / "tree", {"dir/a": b"1", "dir/b": b"2", "dir/c/d": b"3"})
    seen = 0

    def swap() -> None:
        nonlocal seen
        seen += 1
        if seen == 3:  # between the listing of the directory and the end of its files
            (tree / "dir").rename(tmp_path / "moved")
            (tree / "dir").symlink_to(outside)

    out = io.BytesIO()
    with pytest.raises(OSError, match="Not a directory"):
        archive.pack(tree, out, EVERYTHING, checkpoint=swap)
    assert seen >= 3


@pytest.mark.parametrize("link", ["into", "into/dir"])
def test_unpacking_goes_through_no_link_that_a_worker_left(tmp_path: Path, link: str) -> None:
    tarball = tmp_path / "a.tar.gz"
    tarball.write_bytes(packed(plant(tmp_path / "tree", {"a": b"", "dir/file": b"content"})))
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(outside)

    with pytest.raises((OSError, TransientError)):
        archive.unpack(tarball, tmp_path / "into")

    assert not [*outside.iterdir()]
