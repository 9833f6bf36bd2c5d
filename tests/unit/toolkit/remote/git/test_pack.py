"""Packs that git wrote are read byte for byte; damaged and hostile ones are refused."""

import hashlib
import random
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.gitrepository import Repository, environment
from toolkit.remote.git import pack as gitpack
from toolkit.remote.git.errors import GitError
from toolkit.remote.git.limits import Limits, MiB
from toolkit.remote.git.pack import BLOB, COMMIT, TAG, TREE, Pack

OFS_DELTA, REF_DELTA = 6, 7


def pack_of(repository: Repository, path: Path, *options: str) -> Path:
    """Let git put all objects of a repository into one pack."""
    objects = repository.git("rev-list", "--objects", "--all")
    path.write_bytes(repository.git("pack-objects", "--stdout", *options, stdin=objects))
    return path


def content(pack: Pack, oid: str) -> bytes:
    pieces: list[bytes] = []
    pack.copy(oid.encode(), pieces.append)
    return b"".join(pieces)


def blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324  # git's ids


def lines(seed: int, size: int) -> bytes:
    source = random.Random(seed)  # noqa: S311  # test data
    return b"".join(b"key: %d\n" % source.randrange(10**6) for _ in range(size // 12))


def variants(number: int, size: int) -> dict[str, bytes]:
    """Return files that differ in a few places, so that git stores deltas."""
    source = random.Random(1)  # noqa: S311  # test data
    base = lines(2, size)
    found = {}
    for i in range(number):
        changed = bytearray(base)
        for _ in range(3):
            at = source.randrange(len(changed))
            changed[at:at] = b"# inserted %d\n" % source.randrange(10**9)
        found[f"file{i}.yaml"] = bytes(changed)
    return found


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "a.git")


@pytest.mark.parametrize(
    ("number", "size", "options"),
    [
        (20, 600, ()),
        (20, 600, ("--delta-base-offset",)),
        (99, 600, ("--depth=200", "--window=200")),
        (2, MiB + 5000, ()),
    ],
)
def test_every_object_of_a_real_pack_is_read_back(
    repository: Repository, tmp_path: Path, number: int, size: int, options: tuple[str, ...]
) -> None:
    files = variants(number, size)
    commit = repository.commit(files)
    tag = repository.tag("v1", message="the first")
    path = pack_of(repository, tmp_path / "a.pack", *options)
    deltas = b"chain length" in repository_deltas(path)

    with Pack(path, limits=Limits()) as pack:
        read = {name: content(pack, blob_id(data)) for name, data in files.items()}
        kinds = [
            pack.kind(oid.encode())
            for oid in (
                commit,
                tag,
                repository.revision("main^{tree}"),
                blob_id(files["file0.yaml"]),
            )
        ]
        sizes = {name: pack.size(blob_id(data).encode()) for name, data in files.items()}

    assert deltas
    assert read == files
    assert kinds == [COMMIT, TAG, TREE, BLOB]
    assert sizes == {name: len(data) for name, data in files.items()}


def repository_deltas(path: Path) -> bytes:
    """Return git's own statistics of a pack."""
    for command in ("index-pack", "verify-pack"):
        ran = subprocess.run(
            ["git", command, "-v", str(path)], env=environment(), capture_output=True, check=True
        )
    return ran.stdout


def entry(kind: int, data: bytes, *, size: int | None = None, base: bytes = b"") -> bytes:
    """Write one object of a pack; ``size`` is what it claims to have."""
    left = len(data) if size is None else size
    first = kind << 4 | left & 15
    left >>= 4
    header = bytearray()
    while left:
        header.append(first | 0x80)
        first, left = left & 0x7F, left >> 7
    header.append(first)
    return bytes(header) + base + zlib.compress(data)


def pack_file(path: Path, *entries: bytes, count: int | None = None) -> Path:
    number = len(entries) if count is None else count
    body = b"PACK" + struct.pack(">II", 2, number) + b"".join(entries)
    path.write_bytes(body + hashlib.sha1(body).digest())  # noqa: S324  # git's checksum
    return path


def delta(base_size: int, result_size: int, ops: bytes) -> bytes:
    def number(value: int) -> bytes:
        out = b""
        while value > 0x7F:
            out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
        return out + bytes([value])

    return number(base_size) + number(result_size) + ops


HELLO = b"hello world"
GOOD = delta(11, 10, b"\x90\x05" + b"\x05" + b" pipe")


def test_object_is_found_by_its_content_only(tmp_path: Path) -> None:
    path = pack_file(tmp_path / "p", entry(BLOB, b"evil"))

    with Pack(path, limits=Limits()) as pack:
        assert blob_id(b"good").encode() not in pack
        assert blob_id(b"evil").encode() in pack
        with pytest.raises(GitError, match="did not send object"):
            pack.size(blob_id(b"good").encode())


def test_delta_may_come_before_its_base(tmp_path: Path) -> None:
    base = bytes.fromhex(blob_id(HELLO))
    path = pack_file(tmp_path / "p", entry(REF_DELTA, GOOD, base=base), entry(BLOB, HELLO))

    with Pack(path, limits=Limits()) as pack:
        assert content(pack, blob_id(b"hello pipe")) == b"hello pipe"


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (lambda p: p.write_bytes(b"<html>"), "not a pack"),
        (lambda p: p.write_bytes(b""), "not a pack"),
        (lambda p: p.write_bytes(b"PACK" + struct.pack(">II", 4, 0)), "not a pack"),
        (lambda p: pack_file(p, entry(BLOB, HELLO), count=3), "pack"),
        (lambda p: pack_file(p, entry(5, HELLO)), "unknown type"),
        (lambda p: pack_file(p, entry(BLOB, HELLO, size=5)), "another size"),
        (lambda p: pack_file(p, entry(BLOB, HELLO, size=50)), "another size"),
        (lambda p: pack_file(p, b"\x3bnot zlib at all......"), "damaged pack"),
        (lambda p: pack_file(p, entry(REF_DELTA, GOOD, base=b"\1" * 20)), "lack their base"),
        (lambda p: pack_file(p, entry(OFS_DELTA, GOOD, base=b"\x05")), "lack their base"),
        (lambda p: pack_file(p, entry(OFS_DELTA, GOOD, base=b"\x00")), "lack their base"),
    ],
)
def test_damaged_pack_is_refused(tmp_path: Path, broken: object, why: str) -> None:
    path = tmp_path / "p"
    broken(path)  # type: ignore[operator]

    with pytest.raises(GitError, match=why):
        Pack(path, limits=Limits())


def test_truncated_pack_is_refused_wherever_it_ends(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a": "1", "b": "2"})
    whole = pack_of(repository, tmp_path / "whole").read_bytes()

    for end in range(0, len(whole) - 20, 7):
        (tmp_path / "cut").write_bytes(whole[:end])
        with pytest.raises(GitError):
            Pack(tmp_path / "cut", limits=Limits())


@pytest.mark.parametrize("spill", [0, 2 * MiB], ids=["small", "spilled"])
@pytest.mark.parametrize(
    ("ops", "result"),
    [
        (b"\x90\x05\x03abc", 9),
        (b"\x90\x05\x03abc", 7),
        (b"\x90\x05\x05ab", 10),
        (b"\x00", 8),
        (b"\x98\x7f\x05", 5),
        (b"\x93", 5),
        (b"", 8),
    ],
)
def test_damaged_delta_is_refused(tmp_path: Path, spill: int, ops: bytes, result: int) -> None:
    base = HELLO + b"\0" * spill
    damaged = delta(len(base), result, ops)
    if spill:
        damaged = delta(len(base), result + spill, ops + b"\xf0\x00\x00\x20" if ops else b"")
    name = bytes.fromhex(blob_id(base))
    path = pack_file(tmp_path / "p", entry(BLOB, base), entry(REF_DELTA, damaged, base=name))

    with pytest.raises(GitError):
        Pack(path, limits=Limits())


def test_delta_against_another_base_is_refused(tmp_path: Path) -> None:
    name = bytes.fromhex(blob_id(HELLO))
    wrong = delta(12, 5, b"\x90\x05")
    path = pack_file(tmp_path / "p", entry(BLOB, HELLO), entry(REF_DELTA, wrong, base=name))

    with pytest.raises(GitError, match="another base"):
        Pack(path, limits=Limits())


def test_result_of_a_delta_may_not_pass_the_file_limit(tmp_path: Path) -> None:
    name = bytes.fromhex(blob_id(HELLO))
    bomb = delta(11, 1 << 40, b"\x90\x0b" * 1000)
    path = pack_file(tmp_path / "p", entry(BLOB, HELLO), entry(REF_DELTA, bomb, base=name))

    with pytest.raises(GitError, match="larger than"):
        Pack(path, limits=Limits())


def test_number_of_objects_is_bounded(tmp_path: Path) -> None:
    path = pack_file(tmp_path / "p", *[entry(BLOB, b"%d" % i) for i in range(11)])

    with pytest.raises(GitError, match="11 objects, more than the 10 allowed"):
        Pack(path, limits=Limits(objects=10))


def test_what_a_pack_inflates_to_is_bounded(tmp_path: Path) -> None:
    path = pack_file(tmp_path / "p", *[entry(BLOB, bytes(MiB) + b"%d" % i) for i in range(5)])

    with pytest.raises(GitError, match="bytes allowed"):
        Pack(path, limits=Limits(inflated_bytes=3 * MiB))


def test_results_of_deltas_count_as_inflated(tmp_path: Path) -> None:
    base = bytes(MiB)
    name = bytes.fromhex(blob_id(base))
    ops = [
        delta(MiB, MiB + 1, b"\xf0\xff\xff\x0f\xb0\x01\x00" + b"\x01" + bytes([i]))
        for i in range(9)
    ]
    path = pack_file(
        tmp_path / "p", entry(BLOB, base), *[entry(REF_DELTA, op, base=name) for op in ops]
    )

    with pytest.raises(GitError, match="bytes allowed"):
        Pack(path, limits=Limits(inflated_bytes=4 * MiB))


def test_huge_tree_is_not_read_into_memory(tmp_path: Path) -> None:
    data = bytes(33 * MiB)
    name = hashlib.sha1(b"tree %d\0" % len(data) + data).hexdigest()  # noqa: S324  # git's ids
    path = pack_file(tmp_path / "p", entry(TREE, data))

    with (
        Pack(path, limits=Limits()) as pack,
        pytest.raises(GitError, match="more than the"),
    ):
        pack.read(name.encode(), gitpack.TREE)


def test_object_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = pack_file(tmp_path / "p", entry(BLOB, HELLO))

    with (
        Pack(path, limits=Limits()) as pack,
        pytest.raises(GitError, match="is a blob, expected a commit"),
    ):
        pack.read(blob_id(HELLO).encode(), gitpack.COMMIT)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_no_changed_byte_changes_an_object(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("fuzz")
    base = bytes.fromhex(blob_id(HELLO))
    path = pack_file(directory / "p", entry(BLOB, HELLO), entry(REF_DELTA, GOOD, base=base))
    raw = bytearray(path.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)

    try:
        with Pack(path, limits=Limits()) as pack:
            for good in (HELLO, b"hello pipe"):
                if blob_id(good).encode() in pack:
                    assert content(pack, blob_id(good)) == good
    except GitError:
        pass
