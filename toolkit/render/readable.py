"""The message of a failed build with the file that failed first.

kustomize tries each resource as a file and then as a directory, and reports both attempts, the
outermost folder first. What failed is at the end, and the file may be named without its folder.
"""

import posixpath
import re
from typing import Final

_BUILD: Final = "kustomize build failed: "
_DEEPEST: Final = 100
_TWO_WAYS: Final = re.compile(
    r"(?:accumulating resources: )?accumulation err='(?:accumulating \w+|merging resources) from "
    r"'[^']*': (?P<file>.*?)': (?P<folder>.*)",
    re.DOTALL,
)
_NAMED: Final = re.compile(r"'(?P<file>/[^']*)'")
_NO_FOLDER: Final = "must build at directory"
_OUTER: Final = re.compile(
    r"(?:recursed (?:merging|accumulation)\w* (?:from|of) path '(?P<path>[^']*)'"
    r"|accumulating \w+(?: from '(?P<name>[^']*)')?): "
)
_OPENED: Final = re.compile(
    r"(?:openat|open|read|lstat|stat) /?(?P<file>[^:\n]+): (?P<why>[^:\n]+)"
)
_IN_FILE: Final = re.compile(r"(?P<why>.*?)(?: in (?:File|file):? (?P<file>[^\s:]+))", re.DOTALL)
_TARGET: Final = re.compile(
    r"couldn't make target for path '/?(?P<file>[^']*)': (?P<why>.*)", re.DOTALL
)


_HINTS: Final = {
    # what the YAML parser says: what the author should look for
    "found character that cannot start any token": "indent with spaces instead of tabs, and quote "
    "a value that begins with @, ` or %",
    "mapping values are not allowed in this context": "quote a value that contains ': ', and align "
    "the fields of an object",
    "did not find expected key": "align the fields of an object",
    "did not find expected '-' indicator": "align the entries of a list",
    "may not add resource with an already registered id": "remove one of the two, or give it "
    "another name or namespace",
    "missing Resource metadata": "every YAML file below spec.path is applied: list the manifests "
    "in a kustomization.yaml, or exclude the file in .sourceignore",
    "invalid map key": "quote a value that begins with {{, and exclude the templates of a chart",
    "kustomization path not found": "correct spec.path, which begins at the root of the source",
    "could not find expected ':'": "write a colon and a space after each name of a field",
}


def told(text: str) -> str:
    """Return the message of the engine, with the file and what is wrong with it first."""
    message = _located(text)
    remedy = next((_HINTS[each] for each in _HINTS if each in message), "")
    return f"{message}: {remedy}" if remedy else message


def _located(text: str) -> str:
    if not text.startswith(_BUILD):
        return text
    folder, cause = _innermost(text.removeprefix(_BUILD))
    for pattern in (_TARGET, _OPENED, _IN_FILE):
        if found := pattern.search(cause):
            file = (
                found["file"] if pattern is not _IN_FILE else posixpath.join(folder, found["file"])
            )
            return f"{_BUILD}{file.lstrip('/')}: {found['why'].strip()}"
    return f"{_BUILD}{folder.lstrip('/')}: {cause}" if folder else f"{_BUILD}{cause}"


def _innermost(text: str) -> tuple[str, str]:
    """Return the folder in which a build failed, as far as it is named, and the cause."""
    folder = ""
    for _ in range(_DEEPEST):
        if found := _TWO_WAYS.match(text):
            if not found["folder"].startswith(_NO_FOLDER):
                text = found["folder"]
                continue
            text = found["file"]
            named = _NAMED.search(found["folder"])
            if named and not any(each.search(text) for each in (_OUTER, _OPENED, _IN_FILE)):
                return named["file"], text
        elif found := _OUTER.match(text):
            folder = found["path"] or folder
            if found["name"] and "/" not in found["name"]:
                rest = text[found.end() :]
                if _OPENED.search(rest) is None and _IN_FILE.search(rest) is None:
                    return folder, f"{found['name']}: {rest}"
            text = text[found.end() :]
        else:
            break
    return folder, text
