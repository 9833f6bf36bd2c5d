"""Change ``apiVersion`` in manifests, and nothing else of a file.

A file is read line by line, because templates are not YAML, and comments and order have to stay. An
``apiVersion`` belongs to the ``kind`` at the same depth beside it. If the file is YAML, its objects
are checked as well:

- an object whose values would be read differently is left as it is, with what to write instead;
- fields that Flux has removed are reported: Penstock has them in every version.

Files are untrusted: their number and size are bounded, and links are not followed.
"""

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cli import errors
from cli.check import files
from cli.check.subjects import OURS
from cli.versions import targets
from cli.versions.targets import Target
from crds.change import ABSENT
from toolkit.chart import document
from toolkit.objects import Json, gvk_of

EXTENSIONS: Final = (".yaml", ".yml")
_VERSION: Final = re.compile(
    r"""(?P<head>[ \-]*)(?P<key>["']?apiVersion["']?:[ ]+["']?)"""
    r"""(?P<group>[\w.-]+)/(?P<version>v\w+)(?P<rest>["']?,?\s*(?:[ ]\#.*)?)"""
)
_KIND: Final = re.compile(r"""(?P<head>[ \-]*)["']?kind["']?:[ ]+["']?(?P<kind>\w+)["']?""")
_DASHES: Final = "---"
_GONE: Final = {
    "GitRepository": (("gitImplementation",), ("accessFrom",)),
    "HelmRepository": (("accessFrom",),),
    "Bucket": (("accessFrom",),),
    "HelmChart": (("valuesFile",), ("accessFrom",)),
    "HelmRelease": (("chart", "spec", "valuesFile"),),
    "Kustomization": (("validation",), ("patchesStrategicMerge",), ("patchesJson6902",)),
}
"""Fields below ``spec`` that Flux's newest versions lack (docs/api-versions.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One line that gets another version; ``line`` counts from 1."""

    line: int
    kind: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The needed changes of a file: edits, ``left`` for a person to change, ``notes`` as hints."""

    path: Path
    content: bytes
    edits: tuple[Edit, ...] = ()
    left: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def paths(root: Path, extensions: Sequence[str] | None) -> Iterator[Path]:
    """Yield the files to read: the one that is named, or those below a directory.

    Raises:
        UsageError: it does not exist, is no regular file of these extensions, or holds too many.
    """
    extensions = extensions or EXTENSIONS
    if root.is_dir():
        yield from _below(root, extensions)
        return
    if root.is_symlink() or not root.is_file():
        raise errors.UsageError(f"{root} is neither a file nor a directory")
    if not root.name.endswith(tuple(extensions)):
        raise errors.UsageError(f"{root} has none of the --extensions {', '.join(extensions)}")
    yield root


def _below(root: Path, extensions: Sequence[str]) -> Iterator[Path]:
    count = 0
    for folder, below, names in os.walk(root):
        below[:] = sorted(each for each in below if each != ".git")
        for name in sorted(names):
            path = Path(folder, name)
            if not name.endswith(tuple(extensions)) or path.is_symlink() or not path.is_file():
                continue
            count += 1
            if count > files.MOST_FILES:
                raise errors.UsageError(
                    f"{root} holds more than {files.MOST_FILES} files: name its parts"
                )
            yield path


def look(path: Path, target: Target) -> Found:
    """Return the needed changes of a file.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as opened:
            content = opened.read(files.LARGEST + 1)
    except OSError as exc:
        raise errors.UsageError(f"cannot read {path}: {exc.strerror}") from exc
    if b"fluxcd.io/" not in content:
        return Found(path=path, content=content)
    if len(content) > files.LARGEST:
        told = f"{path}: is larger than {files.LARGEST} bytes: split it"
        return Found(path=path, content=b"", left=(told,))
    edits, unknown = _edits(content.decode(errors="surrogateescape").split("\n"), target)
    judged = _judged(path, content, target)
    blocked = {each.line for each in judged if each.blocks}
    return Found(
        path=path,
        content=content,
        edits=tuple(each for each in edits if each.line not in blocked),
        left=(
            *(f"{path}:{each}" for each in unknown),
            *(each.told for each in judged if each.blocks),
        ),
        notes=tuple(each.told for each in judged if not each.blocks),
    )


def write(found: Found) -> None:
    """Replace the file by its edited text, with its permissions.

    Raises:
        UsageError: it changed since it was read, or cannot be written.
    """
    lines = found.content.decode(errors="surrogateescape").split("\n")
    for edit in found.edits:
        lines[edit.line - 1] = _edited(lines[edit.line - 1], edit)
    content = "\n".join(lines).encode(errors="surrogateescape")
    try:
        if found.path.read_bytes() != found.content:
            raise errors.UsageError(f"{found.path} changed meanwhile: run the command again")
        _replace(found.path, content)
    except OSError as exc:
        raise errors.UsageError(f"cannot write {found.path}: {exc.strerror}") from exc


def _replace(path: Path, content: bytes) -> None:
    """Write the content atomically, so that no reader sees a part of a file."""
    mode = stat.S_IMODE(path.stat().st_mode)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
            os.fchmod(opened.fileno(), mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _edited(line: str, edit: Edit) -> str:
    at = line.index(f"/{edit.old}", line.index("apiVersion"))
    return f"{line[:at]}/{edit.new}{line[at + 1 + len(edit.old) :]}"


def _edits(lines: Sequence[str], target: Target) -> tuple[list[Edit], list[str]]:
    """Return the edits of a text, and the unknown versions in it, with their line."""
    edits, unknown = [], []
    for index, line in enumerate(lines):
        match = _VERSION.fullmatch(line.rstrip("\r"))
        kind = _kind(lines, index, len(match["head"])) if match else ""
        if match is None or not kind:
            continue
        group, old = match["group"], match["version"]
        if targets.is_unknown(group, old, kind):
            unknown.append(f"{index + 1}: {kind} has no version {group}/{old}: write it anew")
        new = target.version(group, old, kind)
        if new != old:
            edits.append(Edit(line=index + 1, kind=kind, old=old, new=new))
    return edits, unknown


def _kind(lines: Sequence[str], at: int, column: int) -> str:
    """Return the kind in the mapping that has ``apiVersion`` in a line, or nothing."""
    below = _beside(lines[at + 1 :], column, upwards=False)
    if below or "-" in lines[at][:column]:  # a dash begins the mapping
        return below
    return _beside(reversed(lines[:at]), column, upwards=True)


def _beside(lines: Iterable[str], column: int, *, upwards: bool) -> str:
    """Return the kind that the next lines have in a column, up to where their mapping ends."""
    for line in lines:
        text = line.lstrip(" ")
        if not text.strip() or text.startswith("#"):
            continue
        match = _KIND.match(line)
        fits = match is not None and len(match["head"]) == column
        # a dash begins the mapping itself on the way up, and another one on the way down
        if match is not None and fits and (upwards or "-" not in match["head"]):
            return match["kind"]
        if line.startswith(_DASHES) or len(line) - len(text) < column:
            return ""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The message about one object; ``line`` is that of its ``apiVersion`` if it ``blocks``."""

    told: str
    line: int = 0
    blocks: bool = False


def _judged(path: Path, content: bytes, target: Target) -> list[_Judged]:
    try:
        documents = document.load_all(content)
    except (document.DocumentError, RecursionError):
        return []  # a template, for example: its lines alone can be read
    lines = content.decode(errors="surrogateescape").split("\n")
    found: list[_Judged] = []
    for line, obj in documents:
        if not isinstance(obj, dict):
            continue
        gvk = gvk_of(obj)
        if target.version(gvk.group, gvk.version, gvk.kind) == gvk.version:
            continue
        at = next(
            (i for i in range(line, len(lines) + 1) if lines[i - 1].startswith("apiVersion")), line
        )
        found += _of_object(f"{path}:{at}: {gvk.kind}", obj, at)
    return found


def _of_object(name: str, obj: Json, line: int) -> Iterator[_Judged]:
    gvk = gvk_of(obj)
    kind = OURS[gvk.group_kind]
    old = next(each for each in (*kind.older, None) if each is None or each.version == gvk.version)
    for change in old.changes if old else ():
        value = _at(obj, change.path)
        if change.path[0] != "spec" or value is ABSENT:
            continue
        new = change.up(value)
        if new is not ABSENT and new != value:
            field = ".".join(change.path)
            yield _Judged(
                told=f"{name}: {field}: {value!r} is written {new!r} in {kind.version}: change "
                "both by hand",
                line=line,
                blocks=True,
            )
    for path in _GONE.get(kind.kind, ()):
        if _at(obj, ("spec", *path)) is not ABSENT:
            field = ".".join(("spec", *path))
            yield _Judged(told=f"{name}: {field}: Flux has no such field any more; Penstock has it")


def _at(obj: Json, path: Sequence[str]) -> Any:
    node: Any = obj
    for step in path:
        if not isinstance(node, dict) or step not in node:
            return ABSENT
        node = node[step]
    return node
