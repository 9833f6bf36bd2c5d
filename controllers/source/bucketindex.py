"""The objects of a bucket that go into its artifact, and the revision computed from them.

Keys are untrusted: they come from anyone who may write to the bucket. So each key is validated
before it becomes a path. The revision is the digest of all keys and entity tags, sorted, in Flux's
form (source-controller ``internal/index``), so it does not depend on the order of the listing.

No IO.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from unicodedata import category

from toolkit.artifact import glob, limits, threads
from toolkit.artifact.glob import Pattern, PatternError
from toolkit.artifact.ignore import FILE, MAX_RULES, REASON
from toolkit.artifact.limits import Limits
from toolkit.artifact.threads import Checkpoint
from toolkit.errors import PenstockError, StalledError, TransientError
from toolkit.remote.objectstore.objectstore import Object

MAX_LISTED: Final = 1_000_000
"""Limit of listed objects, including ignored ones."""

_REMEMBERED: Final = 10_000
_DEEPEST: Final = 2 * limits.DEFAULT.depth

_UNWRITABLE: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories: control characters, surrogates, line and paragraph separators."""

_LONGEST_NAME: Final = 255
"""Limit of file systems for a segment of a path, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The objects of the artifact, sorted by key."""

    objects: tuple[Object, ...]

    @property
    def revision(self) -> str:
        """Return ``sha256:<hex>`` over one line per object: key, space, entity tag."""
        digest = sha256()
        for found in self.objects:
            digest.update(f"{found.key} {found.etag}\n".encode())
        return f"sha256:{digest.hexdigest()}"

    @property
    def directories(self) -> list[str]:
        """Return the directories of all objects; a parent comes before its children."""
        return sorted({above for found in self.objects for above in _above(found.key)})


class Sieve:
    """Filters keys by the rules of ``.sourceignore`` and ``spec.ignore``.

    The last rule that matches a key, or a directory above it, wins. As in Flux there are no
    built-in rules, because objects are put into a bucket on purpose. Only ``.git`` is always
    ignored.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = patterns[::-1]
        self._known: dict[tuple[str, ...], int] = {}

    @classmethod
    def of(cls, file: str, spec: str) -> "Sieve":
        """Compile the rules; those of the spec come last.

        Raises:
            TransientError: a rule of the file is invalid (reason SourceIgnoreError).
            StalledError: a rule of the spec is invalid (reason SourceIgnoreError).
        """
        return cls([*_compiled(file, FILE, TransientError), *_compiled(spec, "spec.ignore")])

    def take(
        self, objects: Iterable[Object], checkpoint: Checkpoint = threads.go_on
    ) -> list[Object]:
        """Return the objects that are not ignored.

        "Folder" objects and ``.sourceignore`` are always ignored. The time is proportional to
        objects times rules, so call it in a thread if there are rules.
        """
        taken = []
        for found in objects:
            checkpoint()
            if not _is_no_file(found.key) and not self._excludes(found.key):
                taken.append(found)
        return taken

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def _excludes(self, key: str) -> bool:
        if not self._patterns:
            return False
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        # Deeper keys are refused later.
        parts = tuple(key.split("/", _DEEPEST)[:_DEEPEST])
        best = self._rule(parts, is_directory=False)
        for end in range(1, len(parts)):
            above = parts[:end]
            if above not in self._known:
                self._known[above] = self._rule(above, is_directory=True)
            best = min(best, self._known[above])
        return best < len(self._patterns) and not self._patterns[best].negated

    def _rule(self, parts: tuple[str, ...], *, is_directory: bool) -> int:
        """Return the index of the matching rule with the highest precedence."""
        for place, pattern in enumerate(self._patterns):
            if pattern.matches(parts, is_directory=is_directory):
                return place
        return len(self._patterns)


class Collector:
    """Collects the objects of a listing within limits, and makes the index."""

    def __init__(self, bucket: str, *, bounds: Limits = limits.DEFAULT) -> None:
        self._bucket = bucket
        self._bounds = bounds
        self._listed = 0
        self._bytes = 0
        self._taken: dict[str, Object] = {}

    def count(self, listed: int) -> None:
        """Count listed objects.

        Raises:
            TransientError: the bucket has too many objects.
        """
        self._listed += listed
        if self._listed > MAX_LISTED:
            raise self._wrong(f"lists more than {MAX_LISTED} objects: set spec.prefix")

    def add(self, objects: Iterable[Object]) -> None:
        """Add objects to the index.

        Raises:
            TransientError: a key is not a plain path, or a limit is exceeded.
        """
        for found in objects:
            _check(found.key, self._bounds)
            if not found.etag or not found.etag.isprintable() or found.size < 0:
                raise self._wrong(f"lists '{shown(found.key)}' without entity tag or size")
            if found.key in self._taken:
                raise self._wrong(f"lists '{shown(found.key)}' twice")
            self._taken[found.key] = found
            self._bytes += found.size
            if found.size > self._bounds.file_bytes:
                size = self._bounds.file_bytes >> 20
                raise self._wrong(f"has '{shown(found.key)}', which is larger than {size} MiB")
            if self._bytes > self._bounds.total_bytes:
                size = self._bounds.total_bytes >> 20
                raise self._wrong(f"has objects of more than {size} MiB together")
            if len(self._taken) > self._bounds.entries:
                raise self._wrong(f"has more than {self._bounds.entries} objects")

    def index(self) -> Index:
        """Return the index.

        Raises:
            TransientError: the key of one object is a directory in the key of another.
        """
        for key in self._taken:
            for above in _above(key):
                if above in self._taken:
                    message = f"has '{shown(above)}' as a file and as the directory of another"
                    raise self._wrong(message)
        return Index(objects=tuple(self._taken[key] for key in sorted(self._taken)))

    def _wrong(self, what: str) -> TransientError:
        return TransientError(
            f"bucket '{self._bucket}' {what}; spec.ignore can leave objects out",
            reason="BucketOperationFailed",
        )


def _is_no_file(key: str) -> bool:
    return key.endswith("/") or key == FILE or "/.git/" in f"/{key}"


def shown(key: str) -> str:
    """Return a key for messages: at most 200 characters, control characters escaped."""
    return ascii(key[:200])[1:-1]


def _check(key: str, bounds: Limits) -> None:
    """Refuse a key that is not a plain relative path which a file system can store."""
    segments = key.split("/")
    # 1. The path stays below its root and is in normal form.
    bad = any(segment in ("", ".", "..") for segment in segments)
    # 2. The key fits into one line of text, a message and a tar header.
    bad = bad or not (key.isprintable() or _UNWRITABLE.isdisjoint(map(category, key)))
    # 3. No segment is longer than file systems allow.
    bad = bad or any(len(segment.encode()) > _LONGEST_NAME for segment in segments)
    if bad or len(segments) > bounds.depth:
        raise TransientError(
            f"the object '{shown(key)}' cannot be a file: its key is not a plain path; "
            "spec.ignore can leave it out",
            reason="BucketOperationFailed",
        )


def _above(key: str) -> Iterator[str]:
    """Yield the directories above a key, the nearest first."""
    while "/" in key:
        key = key.rpartition("/")[0]
        yield key


def _compiled(
    text: str, place: str, error: type[PenstockError] = StalledError
) -> Iterator[Pattern]:
    lines = text.removeprefix("\ufeff").splitlines()
    if len(lines) > MAX_RULES:
        raise error(f"'{place}' has more than {MAX_RULES} lines", reason=REASON)
    for number, line in enumerate(lines, start=1):
        try:
            pattern = glob.compile_line(line)
        except PatternError as exc:
            message = f"the rule in line {number} of '{place}' cannot be understood: {exc}"
            raise error(message, reason=REASON) from exc
        if pattern is not None:
            yield pattern
