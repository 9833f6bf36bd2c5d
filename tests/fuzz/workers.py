"""Readers that run in worker processes: indexes, packs, submodules, and the Go engine's.

A worker is killed at its deadline and ends at its limit of memory, and then one request fails. So
these rows have the limits of their workers, and the engine may refuse in any way but by a signal.
"""

import asyncio
import hashlib
import io
import struct
import tarfile
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from controllers.source.generating import tree as generated
from tests.fuzz import binaries, hostile, languages
from tests.fuzz.evidence import _age, _pgp
from tests.fuzz.reader import Row, text, texts
from toolkit.chart import index, lookup
from toolkit.decrypt import engine as datakeys
from toolkit.errors import PenstockError, TransientError
from toolkit.expressions.expression import BUDGET
from toolkit.native import calls, library
from toolkit.native.engine import Engine, Status
from toolkit.remote.git import delta, submodules, tree
from toolkit.remote.git.limits import Budget, Limits
from toolkit.remote.git.pack import Pack
from toolkit.remote.git.sparse import Sparse
from toolkit.remote.git.url import GitUrl


def _index(data: bytes) -> object:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        source, into = Path(name, "source"), Path(name, "into")
        source.write_bytes(data)
        made = index.normalize(source, into)
        return lookup.Catalog().find(into, made.digest, "a", "*")


def _indexes(size: int) -> Iterable[bytes]:
    entry = b"{name: a, version: 1.%d.0, urls: [u], digest: d}"
    yield b"apiVersion: v1\nentries:\n  a:\n" + b"".join(
        b"  - " + entry % n + b"\n" for n in range(size // 50)
    )
    yield b"apiVersion: v1\nentries:\n" + b"".join(b"  a%d: []\n" % n for n in range(size // 12))
    yield b'{"apiVersion": "v1", "entries": {"a": [' + b"{}," * (size // 3) + b"{}]}}"
    yield b'{"apiVersion": "v1", "entries": {"a": [{"name": "a", "version": "1.0.0", "urls": [' + (
        b"[" * 100_000
    )
    yield from hostile.yaml(size)


_BLOB, _TREE = 3, 2


def _pack(data: bytes) -> object:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        path = Path(name, "a.pack")
        path.write_bytes(data)
        with Pack(path, limits=Limits(inflated_bytes=64 << 20)) as pack:
            return [
                tree.make_plan(pack, oid.hex().encode(), budget=_budget(), sparse=Sparse())
                for oid in pack._offsets
                if pack.kind(oid.hex().encode()) == _TREE
            ]


def _budget() -> Budget:
    return Budget(Limits())


def _packs() -> tuple[bytes, ...]:
    blob = b"a: b\n"
    oid = hashlib.sha1(b"blob %d\0" % len(blob) + blob, usedforsecurity=False).digest()
    listed = b"100644 a.yaml\0" + oid
    return (
        binaries.packed(
            binaries.packed_object(_BLOB, len(blob), blob),
            binaries.packed_object(_TREE, len(listed), listed),
        ),
    )


def _hostile_packs(size: int) -> Iterable[bytes]:
    zeros = bytes(32 * size)
    yield binaries.packed(
        binaries.packed_object(_BLOB, len(zeros), zeros), binaries.packed_object(_BLOB, 1, zeros)
    )
    yield binaries.packed(*(binaries.packed_object(_BLOB, 0, b"") for _ in range(size // 20)))
    yield b"PACK" + struct.pack(">II", 2, 0xFFFFFFFF) + b"\x30" * 100_000
    yield binaries.packed(
        binaries.packed_object(_TREE, 1 << 20, (b"40000 a\0" + bytes(20)) * (size // 28))
    )
    loop = binaries.packed_object(7, 4, b"\x01\x01\x01a")
    yield binaries.packed(loop[:1] + bytes(20) + loop[1:])
    far = binaries.packed_object(6, 4, b"\x01\x01\x01a")
    yield binaries.packed(*(far[:1] + b"\xff\xff\xff\x7f" + far[1:] for _ in range(size // 100)))


def _patched(data: bytes) -> object:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        scratch = Path(name)
        return delta.size(delta.apply(b"a" * 1_000, data, scratch=scratch, limit=8 << 20))


def _modules(data: bytes) -> object:
    """Read a file .gitmodules; ``data`` is the file."""
    plan: Any = SimpleNamespace(submodules=[SimpleNamespace(path=b"a")], gitmodules=b"0" * 40)
    pack: Any = SimpleNamespace(read=lambda *_: data)
    return submodules.find(pack, plan, GitUrl.parse("https://example.com/a/b.git"))


def _merged(data: bytes) -> object:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        into = generated.Tree(Path(name, "tree"), generated.Space(64 << 20))
        for file in ("a.yaml", "b.yaml"):
            Path(name, file).write_bytes(data)
        into.put(Path(name, "a.yaml"), ("v.yaml",))
        into.merge(Path(name, "b.yaml"), ("v.yaml",))
    return None


@cache
def _engine(*, helm: bool = False) -> Engine:
    path = library.find()
    return Engine(library.with_helm(path) if helm else path)


def _ask(operation: str, request: dict[str, Any], *, helm: bool = False) -> bytes:
    """Run an operation; a panic is a fault, any other refusal is not."""
    status, body = _engine(helm=helm).call(
        operation, msgspec.json.encode(request), milliseconds=20_000
    )
    if status is Status.PANICKED:
        raise AssertionError(f"{operation} panicked: {body[:300]!r}")
    return body


_KUSTOMIZATION: Final = b"resources: [a.yaml]\n"
_MANIFEST: Final = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {b: '${c}'}\n"


def _built(data: bytes) -> object:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        for file, (kustomization, manifest) in enumerate(
            ((data, _MANIFEST), (_KUSTOMIZATION, data))
        ):
            root = Path(name, str(file))
            root.mkdir()
            (root / "kustomization.yaml").write_bytes(kustomization)
            (root / "a.yaml").write_bytes(manifest)
            mounts = {"": str(root)}
            _ask(
                "kustomize.build",
                {
                    "mounts": mounts,
                    "path": "",
                    "transformations": {},
                    "files": {},
                    "suspects": [],
                    "questions": "",
                },
            )
            _ask("kustomize.footprint", {"mounts": mounts, "questions": text(data)})
    return None


def _substituted(data: bytes) -> object:
    given = text(data)
    _ask("substitute.text", {"text": given, "variables": {"a": given[:100]}, "strict": False})
    manifest = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "b"}, "data": {"c": given}}
    return _ask("substitute", {"objects": [manifest], "variables": {"a": "b"}, "strict": True})


def _templates() -> tuple[bytes, ...]:
    return (
        *(b"${a:-" * 20_000 + b"}" * 20_000, b"${a}" * 200_000, b"${a//" + b"?" * 100_000 + b"/b}"),
        *(
            b"${a/*" + b"*?" * 50_000 + b"/c}",
            b"$" * 1_000_000,
            b"${" * 300_000,
            b"${a:0:99999999999}",
        ),
        *(b"{{" * 20_000, b"{{range $i := .}}" * 5_000, b'{{printf "%0999999999d" 1}}'),
        *(b'{{define "a"}}{{template "a"}}{{end}}{{template "a"}}', b"{{(" * 10_000),
    )


def _set(data: bytes) -> object:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        Path(name, "a.yaml").write_bytes(data)
        image = {"name": "a", "tag": "1", "digest": ""}
        return _ask("images.set", {"root": name, "path": ".", "images": {"n:p": image}})


def _message(data: bytes) -> object:
    request = {"values": {"a": "b"}, "namespace": "n", "name": "m", "images": {}, "files": []}
    return _ask("images.message", {"template": text(data), "check": False, **request})


def _keys(data: bytes) -> object:
    """Try keys and messages in a worker, which is killed at its deadline.

    The library for OpenPGP does not end on some damaged keys, whatever its deadline.
    """
    return asyncio.run(_tried(data))


async def _tried(data: bytes) -> None:
    age, _, message = _age()
    pool = datakeys.start()
    try:
        for operation, key, sent in (
            ("age.open", data, message.decode()),
            ("age.open", age, text(data)),
            ("openpgp.open", data, message.decode()),
            ("openpgp.open", _pgp()[0], text(data)),
        ):
            request = {"keys": [{"name": "a", "data": key}], "messages": [sent]}
            with suppress(TransientError):
                await calls.call(pool, operation, request, timeout=datakeys.SECONDS, flow="team")
    finally:
        await pool.close()


_POLICY: Final = {
    "version": "1.0",
    "trustPolicies": [
        {
            "name": "a",
            "registryScopes": ["*"],
            "signatureVerification": {"level": "strict"},
            "trustStores": ["ca:a"],
            "trustedIdentities": ["*"],
        }
    ],
}


_VARIABLES: Final = {"self": {"a": [1, "b"]}, "dep": {}, "object": {}}
_CEL: Final = tuple(
    each.encode()[:4096]
    for each in (
        "(" * 2048 + ")" * 2048,
        "!" * 4000 + "true",
        "-" * 4000 + "1",
        "[" * 2048 + "]" * 2048,
        "self.a" + ".b" * 2000,
        "self.a" + "[0]" * 1300,
        "true" + " || true" * 500,
        "1" + "+1" * 2000 + " > 0",
        "true ? " * 500 + "true" + " : true" * 500,
        "'" + "a" * 4000 + "' == ''",
        "9" * 4000 + " > 0",
        "{" + "'a':{" * 700 + "}" * 700 + "}",
        "[1,2,3]" + ".map(x, [1,2,3])" * 200 + " == []",
    )
)
"""What is deep, long or grows; the limit of an expression is 4,096 characters."""


def _expressed(data: bytes) -> object:
    """Compile and evaluate an expression, as the evaluator asks for it."""
    request = {"expressions": [{"text": text(data)}]}
    _ask("cel.check", request)
    case = {"with": _VARIABLES, "steps": [{"expression": 0}]}
    return _ask("cel.evaluate", request | {"cases": [case], "budget": BUDGET})


def _notation(data: bytes) -> object:
    for media in ("application/jose+json", "application/cose"):
        request = {"mediaType": media, "envelope": data, "fetched": [], "policy": _POLICY}
        _ask("notation.verify", request)
    return None


def _chart(data: bytes) -> object:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        Path(name, "a.tgz").write_bytes(data)
        _ask("chart.inspect", {"root": name, "path": "a.tgz"}, helm=True)
        folder = Path(name, "c")
        folder.mkdir()
        for file in ("Chart.yaml", "values.yaml", "Chart.lock"):
            (folder / file).write_bytes(data)
            _ask("chart.inspect", {"root": name, "path": "c"}, helm=True)
        into = {"into": str(Path(name, "out.tgz")), "valuesFiles": ["values.yaml"]}
        (folder / "Chart.yaml").write_bytes(b"apiVersion: v2\nname: c\nversion: 1.0.0\n")
        return _ask("chart.package", {"root": name, "path": "c", **into}, helm=True)


def _charts() -> tuple[bytes, ...]:
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w:gz") as tar:
            head = tarfile.TarInfo("c/Chart.yaml")
            body = b"apiVersion: v2\nname: c\nversion: 1.0.0\n"
            head.size = len(body)
            tar.addfile(head, io.BytesIO(body))
        return (file.getvalue(), body)


def _of_engine(size: int) -> Iterable[bytes]:
    return (*hostile.yaml(size), *(each[: 4 * size] for each in _templates()))


_ENGINE: Final = "toolkit.native.engineworker"
_SECONDS: Final = 60.0
"""Processor time of one input, of which each row runs several operations."""

ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="index of charts",
        bombs=False,
        parse=_index,
        samples=texts("apiVersion: v1\nentries:\n  a:\n  - {name: a, version: 1.0.0, urls: [u]}\n"),
        worst=_indexes,
        size=4 << 20,
        runs="toolkit.chart.worker",
        examples=60,
        seconds=_SECONDS,
        memory=512,
        places=("toolkit/chart/index.py json yaml", "toolkit/chart/lookup.py json"),
    ),
    Row(
        name="pack of Git",
        parse=_pack,
        shape=binaries.packs,
        samples=_packs,
        worst=_hostile_packs,
        refuses=(PenstockError, ValueError),
        runs="toolkit.remote.git.worker",
        seconds=20.0,
        places=("toolkit/remote/git/pack.py archive", "toolkit/remote/git/tree.py git"),
    ),
    Row(
        name="delta of Git",
        parse=_patched,
        shape=binaries.deltas,
        samples=lambda: (b"\xe8\x07\x05\x90\x05",),
        worst=lambda size: (
            b"\xe8\x07" + b"\xff" * 4 + b"\x7f" + b"\xb0\xff\xff" * (size // 3),
            b"\xff" * 99,
        ),
        refuses=(PenstockError, ValueError),
        runs="toolkit.remote.git.worker",
        seconds=20.0,
        places=("toolkit/remote/git/delta.py git",),
    ),
    Row(
        name=".gitmodules",
        parse=_modules,
        shape=languages.MODULES,
        samples=texts('[submodule "a"]\n\tpath = a\n\turl = ../c.git\n'),
        worst=hostile.lines,
        refuses=(PenstockError, ValueError),
        runs="toolkit.remote.git.worker",
        seconds=20.0,
        places=("toolkit/remote/git/submodules.py git",),
    ),
    Row(
        name="values that a generator merges",
        parse=_merged,
        samples=texts("a: {b: 1}\n"),
        worst=hostile.yaml,
        runs="controllers.source.generating.worker",
        seconds=20.0,
        memory=512,
        places=("controllers/source/generating/tree.py yaml",),
    ),
    Row(
        name="kustomization and manifest",
        bombs=False,
        parse=_built,
        samples=lambda: (_KUSTOMIZATION, _MANIFEST),
        worst=_of_engine,
        size=2 << 10,
        runs=_ENGINE,
        examples=60,
        seconds=_SECONDS,
        memory=2048,
        operations=("kustomize.build", "kustomize.footprint"),
    ),
    Row(
        name="variables of a build",
        bombs=False,
        parse=_substituted,
        shape=languages.VARIABLES,
        samples=texts("${a:=b}", "a: ${b}"),
        worst=_of_engine,
        size=8 << 10,
        runs=_ENGINE,
        examples=60,
        seconds=_SECONDS,
        memory=2048,
        operations=("substitute", "substitute.text"),
    ),
    Row(
        name="markers in manifests",
        parse=_set,
        samples=texts('image: a:1 # {"$imagepolicy": "n:p"}\n'),
        worst=_of_engine,
        size=16 << 10,
        runs=_ENGINE,
        examples=60,
        seconds=_SECONDS,
        memory=2048,
        operations=("images.set",),
    ),
    Row(
        name="template of a message",
        parse=_message,
        shape=languages.TEMPLATE,
        samples=texts(
            "{{ .AutomationObject }} {{ range .Changed.Changes }}{{ .NewValue }}{{ end }}"
        ),
        worst=_of_engine,
        size=16 << 10,
        runs=_ENGINE,
        examples=60,
        seconds=_SECONDS,
        memory=2048,
        operations=("images.message",),
    ),
    Row(
        name="secret keys and messages of OpenPGP and age",
        bombs=False,
        parse=_keys,
        samples=lambda: (_age()[2], *_pgp()),
        worst=hostile.armour,
        size=16 << 10,
        runs=_ENGINE,
        examples=60,
        seconds=_SECONDS,
        memory=2048,
        operations=("age.open", "openpgp.open"),
    ),
    Row(
        name="CEL expression",
        bombs=False,
        parse=_expressed,
        shape=languages.CEL,
        samples=texts(
            "self.a.filter(x, x == 'b').size() > 0 && has(dep.b) ? true : [1, 2u].all(y, y < 3)",
            "self.a[1].matches(r'b+') || timestamp('2026-01-01T00:00:00Z') > timestamp(0)",
        ),
        worst=lambda _: _CEL,
        runs=_ENGINE,
        examples=60,
        seconds=_SECONDS,
        memory=2048,
        operations=("cel.check", "cel.evaluate"),
    ),
    Row(
        name="envelope of Notation",
        parse=_notation,
        samples=texts('{"payload": "e30", "protected": "e30", "header": {}, "signature": "YQ"}'),
        worst=lambda size: (*hostile.json(size), *hostile.der(size // 4), b"\xd2" * (size // 10)),
        runs=_ENGINE,
        examples=60,
        seconds=_SECONDS,
        memory=2048,
        operations=("notation.verify",),
    ),
    Row(
        name="chart",
        parse=_chart,
        shape=binaries.tarballs,
        samples=_charts,
        worst=hostile.yaml,
        size=1 << 16,
        runs="toolkit.chart.worker",
        examples=60,
        seconds=_SECONDS,
        memory=2048,
        operations=("chart.inspect", "chart.package"),
    ),
)
