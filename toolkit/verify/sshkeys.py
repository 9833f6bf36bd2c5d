"""SSH keys for signatures of Git objects: ``*.sshpub`` of a Secret, in OpenSSH's two formats.

``authorized_keys`` lines are ``[options] type base64 [comment]`` (sshd(8)). Lines of an allowed
signers file are ``principals [options] type base64 [comment]`` (ssh-keygen(1)). Options for the
validity and the namespaces of a key have the same effect as in ``ssh-keygen -Y verify``. A line
with any other option is ignored, and so is a certificate authority, because certificates are not
supported. All principals count: Git looks for a principal that fits the key, and never requires a
certain one.

A key must be valid *now*: the date of the signed object does not count, because its author can
choose it. Times without a zone are UTC, so that all replicas agree.

An ignored line is reported, and its key stays valid if another line lists it; ``@revoked`` refuses
its key in all files. If such a line cannot be parsed, no key is valid. The same holds if a file has
more lines than are read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from toolkit.remote.ssh import publickeys
from toolkit.remote.ssh.publickeys import Line

NAMESPACE: Final = "git"
KINDS: Final = frozenset(
    {
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The valid keys with their owners, by blob; ``refused`` has the reasons for others.

    ``skipped`` has every ignored line: file, number, reason.
    """

    owners: Mapping[bytes, str]
    refused: Mapping[bytes, str]
    skipped: tuple[str, ...]


def read(files: Mapping[str, bytes], *, now: datetime) -> Keys:
    """Read files by their names.

    Raises:
        ValueError: a line that revokes a key cannot be read, or a file has too many lines.

    """
    owners: dict[bytes, str] = {}
    refused: dict[bytes, str] = {}
    skipped: list[str] = []
    revoked: set[bytes] = set()
    for name, content in sorted(files.items()):
        for number, text in _lines(name, content):
            where = f"'{name}' line {number}"
            line = _line(text, where, skipped)
            if line is None:
                continue
            blob = line.key.blob
            problem = _problem(line, now)
            if not problem:
                owners[blob] = _owner(line) or name
                continue
            if problem == _REVOKES:
                revoked.add(blob)
            skipped.append(f"{where} {problem}")
            refused[blob] = skipped[-1]
    good = {blob: owner for blob, owner in owners.items() if blob not in revoked}
    return Keys(owners=good, refused=refused, skipped=tuple(skipped))


def _lines(name: str, content: bytes) -> Sequence[tuple[int, str]]:
    try:
        return publickeys.lines(content)
    except ValueError as exc:
        raise ValueError(f"'{name}' {exc}") from exc


def _line(text: str, where: str, skipped: list[str]) -> Line | None:
    try:
        return publickeys.parse(text, before=2)
    except ValueError as exc:
        problem = f"{where} {exc}"
        if text.lower().startswith(publickeys.REVOKED):
            raise ValueError(f"{problem}, and revokes one") from exc
        skipped.append(problem)
        return None


def _owner(line: Line) -> str:
    principals, _ = _parts(line.before)
    return principals.strip('"') or line.comment


def _problem(line: Line, now: datetime) -> str:
    """Return why a line is ignored; empty if it is valid."""
    marker = line.before[0].lower() if line.before else ""
    if marker == publickeys.REVOKED:
        return _REVOKES
    if marker.startswith("@"):
        return "has a marker that lists of signers do not have"
    if line.key.kind not in KINDS:
        return "holds a key of a type that does not count"
    try:
        return _restriction(_parts(line.before)[1], now)
    except ValueError as exc:
        return str(exc)


_REVOKES: Final = "revokes its key"


def _parts(before: tuple[str, ...]) -> tuple[str, str]:
    """Split principals and options; a single word is recognized by its form."""
    if len(before) == 1:
        return ("", before[0]) if _are_options(before[0]) else (before[0], "")
    return (before[0], before[1]) if before else ("", "")


def _are_options(word: str) -> bool:
    names = [part.partition("=") for part in publickeys.split_quoted(word, ",")]
    return any(equals or name.lower() in _OPTIONS for name, equals, _ in names)


def _restriction(options: str, now: datetime) -> str:
    """Return the option that forbids Git signatures by the key now; empty if there is none.

    Raises:
        ValueError: an option is not supported.
    """
    given: dict[str, str] = {}
    for option in publickeys.split_quoted(options, ",") if options else ():
        name, _, value = option.partition("=")
        name = name.lower()
        if name == _AUTHORITY:
            return "is for a certificate authority, and certificates are not accepted"
        if name not in _HONOURED:
            raise ValueError(
                f"has an option that signatures cannot honour: only {', '.join(_HONOURED)} count"
            )
        if name in given:
            raise ValueError(f"has the option {name} twice")
        given[name] = _unquoted(name, value)
    _check_interval(given)
    for name, value in given.items():
        problem = _HONOURED[name](name, value, now)
        if problem:
            return problem
    return ""


def _unquoted(name: str, value: str) -> str:
    if len(value) < len('""') or value[0] != '"' or value[-1] != '"':
        raise ValueError(f"has the option {name} without a value in double quotes")
    return value[1:-1].replace('\\"', '"')


def _check_interval(given: Mapping[str, str]) -> None:
    bounds = [_time(name, given[name]) for name in ("valid-after", "valid-before") if name in given]
    if bounds != sorted(set(bounds)):
        raise ValueError("has a valid-before that is not later than its valid-after")


def _namespaces(_name: str, value: str, _now: datetime) -> str:
    listed = publickeys.in_list(NAMESPACE, value)
    return "" if listed else f"does not list '{NAMESPACE}' in its namespaces"


def _starts(name: str, value: str, now: datetime) -> str:
    return "is not valid yet" if now < _time(name, value) else ""


def _ends(name: str, value: str, now: datetime) -> str:
    return "has expired" if now > _time(name, value) else ""


def _time(name: str, text: str) -> datetime:
    """Read YYYYMMDD or YYYYMMDDHHMM[SS], with or without a Z."""
    digits = text[:-1] if text[-1:] in {"Z", "z"} else text
    layout = _LAYOUTS.get(len(digits))
    try:
        if layout and digits.isascii() and digits.isdigit():
            return datetime.strptime(digits, layout).replace(tzinfo=UTC)
    except ValueError:
        pass
    raise ValueError(f"has no time in its option {name}: write YYYYMMDD or YYYYMMDDHHMM[SS]")


_LAYOUTS: Final = MappingProxyType({8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"})
_HONOURED: Final[Mapping[str, Callable[[str, str, datetime], str]]] = MappingProxyType(
    {
        # option: why it keeps the key from counting, if it does
        "namespaces": _namespaces,
        "valid-after": _starts,
        "valid-before": _ends,
        # An option of authorized_keys; ssh-keygen has only valid-before.
        "expiry-time": _ends,
    }
)
_AUTHORITY: Final = "cert-authority"
_OPTIONS: Final = frozenset(
    {
        *_HONOURED,
        _AUTHORITY,
        # sshd(8), AUTHORIZED_KEYS FILE FORMAT
        *("agent-forwarding", "command", "environment", "from", "no-agent-forwarding"),
        *("no-port-forwarding", "no-pty", "no-touch-required", "no-user-rc", "no-x11-forwarding"),
        *("permitlisten", "permitopen", "port-forwarding", "principals", "pty", "restrict"),
        *("tunnel", "user-rc", "verify-required", "x11-forwarding"),
    }
)
