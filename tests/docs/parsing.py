"""Find what parses: calls of parsing libraries, and functions that are named as parsers.

A place is a module and a family of parsers, ``toolkit/remote/tls.py certificate``. So a module
that begins to read another format needs another row of ``tests.fuzz.parsers``.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

PACKAGES: Final = ("apiserver", "certs", "cli", "controllers", "crds", "toolkit", "webhooks")

FAMILIES: Final[Mapping[str, str]] = {
    "yaml": (
        r"yaml\.(?:(?:\w+_)?(?:load|compose)(?:_all)?|parse|scan|C?(?:Safe|Base|Full|Unsafe)?Loader)"
        r"|toolkit\.untrusted\.(?:load_yaml|events)|toolkit\.chart\.document\.load\w*"
    ),
    "json": (
        r"json\.(?:loads?|JSONDecoder)|msgspec\.json\.(?:decode|Decoder)"
        r"|toolkit\.untrusted\.load_json"
    ),
    "msgpack": r"msgspec\.msgpack\.(?:decode|Decoder)|marshal\..*|pickle\..*",
    "config": r"(?:msgspec\.)?toml\w*\..*|configparser\..*|shlex\.split|csv\..*reader",
    "pattern": (
        r"re\.(?:compile|match|search|fullmatch|sub|split|findall|finditer)"
        r"|re2\.(?:compile|match|search|fullmatch|sub|split|Set)|toolkit\.regexp\.compiled"
    ),
    "glob": r"fnmatch\..*|glob\..*",
    "archive": (
        r"tarfile\.(?:open|TarFile|TarInfo\.from\w+)|zipfile\..*|gzip\.(?:open|decompress|GzipFile)"
        r"|zlib\.decompress\w*|bz2\..*|lzma\..*|zstandard\..*"
    ),
    "certificate": r"cryptography\.x509\.load_.*",
    "key": (
        r"cryptography\.hazmat\..*\.(?:load_\w+|from_encoded_point|from_public_bytes"
        r"|RSAPublicNumbers)|asyncssh\.(?:import|read)_.*|cryptography\..*pkcs\d+\..*"
    ),
    "signature": r"cryptography\..*\.decode_dss_signature|rfc3161_client\.decode_.*",
    "sigstore": r"sigstore\..*\.from_json|tuf\..*",
    "openpgp": r"pysequoia\.(?:\w+\.)*(?:from_bytes|split_bytes|verify|decrypt)",
    "age": r"pyrage\.(?:decrypt|\w+\.\w+\.from_\w+|\w+\.Recipient)",
    "url": r"urllib\.parse\.(?:urlsplit|urlparse|urljoin|parse_qsl?|unquote\w*)|yarl\.URL",
    "address": r"ipaddress\.(?:ip_\w+|IPv[46]\w+)",
    "time": r"datetime\.datetime\.(?:fromisoformat|strptime)|email\.utils\.parse\w*",
    "xml": r"xml\..*(?:ParserCreate|fromstring|XMLParser|iterparse|parse)|html\.unescape",
    "token": r"jwt\.(?:decode|get_unverified_header|PyJW\w+\.from_\w+)",
    "git": (
        r"dulwich\.(?:objects\.(?:\w+\.from_\w+|parse_\w+)|pack\.apply_delta"
        r"|config\..*(?:from_file|parse_\w+)|refs\.check_ref_format)"
    ),
    "kubernetes": r"kubernetes\.config\..*",
    "frames": r"struct\.(?:Struct|unpack\w*|iter_unpack)",
}
"""What a family of parsers is called by: names as they are imported, complete."""

OWN: Final = re.compile(r"_?(?:parse|decode|load|unpack)(?:s|d|ed)?(?:_\w+)?|from_[a-z]\w+")
"""Functions that are parsers of our own, by their names."""

_FAMILIES: Final = {name: re.compile(pattern) for name, pattern in FAMILIES.items()}


def places(root: Path) -> Iterator[str]:
    """Yield each module below ``root`` with each family of parsers that it uses."""
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            for family in sorted(families(path.read_text())):
                yield f"{path.relative_to(root)} {family}"


def families(source: str) -> set[str]:
    """Return the families of parsers that a module uses."""
    tree = ast.parse(source)
    imported = dict(_imported(tree))
    fixed = {id(call.func) for call in _calls(tree) if _is_fixed(call, imported)}
    found = {
        family
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in fixed
        for family, pattern in _FAMILIES.items()
        if pattern.fullmatch(_dotted(node, imported))
    }
    return found | ({"own"} if any(map(_is_parser, ast.walk(tree))) else set())


def called(source: str) -> set[str]:
    """Return the complete names of what a module calls, of those that it imports."""
    tree = ast.parse(source)
    imported = dict(_imported(tree))
    return {_dotted(call.func, imported) for call in _calls(tree)}


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _dotted(node: ast.AST, imported: Mapping[str, str]) -> str:
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    top = imported.get(node.id, "") if isinstance(node, ast.Name) else ""
    return ".".join([top, *reversed(names)]) if top else ""


def _is_fixed(call: ast.Call, imported: Mapping[str, str]) -> bool:
    """Tell whether a regular expression is one of ours: literals and constants alone."""
    if not _dotted(call.func, imported).startswith("re.") or not call.args:
        return False
    names = [node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name)]
    return all(name.lstrip("_").isupper() for name in names) and not any(_calls(call.args[0]))


def _is_parser(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and bool(
        OWN.fullmatch(node.name)
    )
