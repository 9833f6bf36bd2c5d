"""Bare Git repositories made by the real git: harmless ones quickly, hostile ones by the byte."""

import hashlib
import os
import struct
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dulwich.pack import write_pack_index_v2


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies at a path, with its mode; a submodule's content is its commit."""

    mode: str
    content: bytes


def executable(content: str) -> Entry:
    return Entry("100755", content.encode())


def link(target: str) -> Entry:
    return Entry("120000", target.encode())


def submodule(commit: str) -> Entry:
    return Entry("160000", commit.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """What git signs with: ``format`` is openpgp or ssh, ``key`` a fingerprint or a path."""

    format: str
    key: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> list[str]:
        return ["-c", f"gpg.format={self.format}", "-c", f"user.signingKey={self.key}"]


class Repository:
    """One repository; ``url`` is where a server offers it, ``head`` its first branch."""

    def __init__(self, path: Path, *, url: str = "", head: str = "main") -> None:
        self.path = path
        self.url = url
        self.head = head
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--bare", f"--initial-branch={head}")
        self.git("config", "uploadpack.allowFilter", "true")

    def commit(
        self,
        files: Mapping[str, "str | bytes | Entry | None"],
        *,
        message: str = "Change the files",
        branch: str = "",
        sign: SigningKey | None = None,
    ) -> str:
        """Add a commit that changes some files, ``None`` removes one; return its id."""
        ref = f"refs/heads/{branch or self.head}"
        stream = [f"commit {ref}\ncommitter {AUTHOR} now\n".encode(), _data(message.encode())]
        parent = self.revision(ref)
        if parent:
            stream.append(f"from {parent}\n".encode())
        stream += [_change(path, content) for path, content in files.items()]
        self.git("fast-import", "--quiet", "--force", "--date-format=now", stdin=b"".join(stream))
        if sign is not None:
            self._sign(ref, parent, message, sign)
        return self.revision(ref)

    def accept_pushes(self, *, hook: str = "") -> None:
        """Let clients push over HTTP, and have a shell script judge what they push."""
        self.git("config", "http.receivepack", "true")
        if hook:
            script = self.path / "hooks" / "pre-receive"
            script.parent.mkdir(exist_ok=True)
            script.write_text(f"#!/bin/sh\n{hook}\n")
            script.chmod(0o755)

    def listing(self, name: str = "") -> dict[str, str]:
        """Return the mode and object of each path of a branch."""
        lines = self.git("ls-tree", "-r", name or self.head).decode().splitlines()
        split = (line.split("\t") for line in lines)
        return {path: " ".join(what.split()[::2]) for what, path in split}

    def content(self, path: str, name: str = "") -> str:
        """Return the text of a file of a branch."""
        return self.git("show", f"{name or self.head}:{path}").decode()

    def tag(
        self,
        name: str,
        *,
        target: str = "",
        message: str = "",
        sign: SigningKey | None = None,
    ) -> str:
        """Set a tag: annotated with a message, signed with a key, else lightweight."""
        options, environment = (sign.options, sign.environment) if sign else ([], {})
        flags = [flag for flag, given in (("--annotate", message), ("--sign", sign)) if given]
        text = ["-m", message or name] if flags else []
        self.git(
            *options, "tag", "--force", *flags, *text, name, target or self.head, env=environment
        )
        return self.revision(f"refs/tags/{name}")

    def revision(self, name: str) -> str:
        """Return the object that a name stands for, empty if there is none."""
        found = subprocess.run(
            ["git", "rev-parse", "--verify", "--quiet", name],
            cwd=self.path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        return found.stdout.strip()

    def raw_object(self, kind: str, content: bytes) -> str:
        """Store any bytes as an object, unchecked."""
        output = self.git("hash-object", "-w", "--literally", "-t", kind, "--stdin", stdin=content)
        return output.decode().strip()

    def raw_tree(self, entries: Sequence[tuple[str, bytes, str]]) -> str:
        """Store a tree of (mode, name, object id), unsorted and unchecked."""
        return self.raw_object(
            "tree",
            b"".join(
                mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid)
                for mode, name, oid in entries
            ),
        )

    def zeros(self, mebibytes: int) -> str:
        """Store a blob of zeros, in a pack of a thousandth of its size, at once."""
        size = mebibytes << 20
        oid = hashlib.sha1(b"blob %d\0" % size)  # noqa: S324  # git's ids
        checksum = 1
        for _ in range(mebibytes):
            oid.update(_MEBIBYTE)
            checksum = zlib.adler32(_MEBIBYTE, checksum)
        deflate = zlib.compressobj(wbits=-15)
        # After a full flush the compressor starts anew: every mebibyte looks the same.
        block = deflate.compress(_MEBIBYTE) + deflate.flush(zlib.Z_FULL_FLUSH)
        data = b"\x78\x9c" + block * mebibytes + deflate.flush() + checksum.to_bytes(4)
        entry = _pack_header(3, size) + data
        pack = b"PACK" + struct.pack(">II", 2, 1) + entry
        trailer = hashlib.sha1(pack).digest()  # noqa: S324  # git's checksum
        stem = self.path / f"objects/pack/pack-{trailer.hex()}"
        stem.with_suffix(".pack").write_bytes(pack + trailer)
        with stem.with_suffix(".idx").open("wb") as index:
            write_pack_index_v2(index, [(oid.digest(), 12, zlib.crc32(entry))], trailer)
        return oid.hexdigest()

    def commit_tree(self, tree: str, *, branch: str = "") -> str:
        """Make a tree the content of a branch."""
        commit = self.git("commit-tree", "-m", "Set the tree", tree).decode().strip()
        self.git("update-ref", f"refs/heads/{branch or self.head}", commit)
        return commit

    def git(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """Run git in the repository and return what it prints."""
        return subprocess.run(
            ["git", *args],
            cwd=self.path,
            env=environment() | dict(env or {}),
            input=stdin,
            capture_output=True,
            check=True,
        ).stdout

    def _sign(self, ref: str, parent: str, message: str, key: SigningKey) -> None:
        parents = ["-p", parent] if parent else []
        commit = self.git(
            *key.options,
            *("commit-tree", "-S", "-m", message, *parents, f"{ref}^{{tree}}"),
            env=key.environment,
        )
        self.git("update-ref", ref, commit.decode().strip())


_MEBIBYTE = bytes(1 << 20)
AUTHOR = "Ada Pipe <ada@example.org>"


def environment() -> dict[str, str]:
    """Return an environment in which git reads nobody's configuration."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "Ada Pipe",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada Pipe",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
    }


def _pack_header(kind: int, size: int) -> bytes:
    """Write type and size as a pack does (gitformat-pack(5))."""
    first, size = kind << 4 | size & 15, size >> 4
    header = bytearray()
    while size:
        header.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    return bytes(header) + bytes([first])


def _change(path: str, content: "str | bytes | Entry | None") -> bytes:
    if content is None:
        return f"D {path}\n".encode()
    entry = content if isinstance(content, Entry) else Entry("100644", _bytes(content))
    if entry.mode == "160000":
        return f"M 160000 {entry.content.decode()} {path}\n".encode()
    return f"M {entry.mode} inline {path}\n".encode() + _data(entry.content)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _data(content: bytes) -> bytes:
    return f"data {len(content)}\n".encode() + content + b"\n"
