"""Readers of what is matched: regular expressions, globs and ignore rules."""

from typing import Final

from crds.image import AlphabeticalPolicy, ImagePolicyChoice, TagFilter
from tests.fuzz import hostile, languages
from tests.fuzz.reader import Row, each, text, texts
from toolkit import regexp
from toolkit.artifact.composition import globs, pathpattern
from toolkit.artifact.ignore import Ignore
from toolkit.errors import PenstockError
from toolkit.policy import tags, urls


def _pattern(data: bytes) -> object:
    return regexp.compiled(text(data)).search("a" * 10_000)


def _tag_filter(data: bytes) -> object:
    pattern, _, extract = text(data).partition("\n")
    tags.missing_groups(pattern, extract) if _is_pattern(pattern) else ()
    given = TagFilter(pattern=pattern, extract=extract)
    listed = ["main-abc-17", "a" * 2000, *(f"v1.{number}.0" for number in range(50))]
    return tags.choose(ImagePolicyChoice(alphabetical=AlphabeticalPolicy()), given, listed)


def _is_pattern(text: str) -> bool:
    try:
        regexp.compiled(text)
    except ValueError:
        return False
    return True


def _ignored(data: bytes) -> object:
    return Ignore.from_rules(text(data))


def _matched(data: bytes) -> object:
    rules = Ignore.from_rules(text(data))
    return rules, urls.matches(text(data)[:4096], "https://example.com/" + "a/" * 500)


_PATHS: Final = (("a",) * 40, ("a" * 255, "b.yaml"), ("charts", "app", "values.yaml"))


def _excluded(data: bytes) -> object:
    if globs.count(text(data)) > 1000:  # as the rules of an ArtifactGenerator demand
        return None
    rules = globs.Rules.parse([text(data)])
    return [rules.exclude(parts, base=0) for parts in _PATHS]


def _captured(data: bytes) -> object:
    return list(pathpattern.PathPattern.parse(text(data)).matches(_PATHS))


def _repeats(size: int) -> tuple[bytes, ...]:
    """Return patterns that grow when they are compiled, or backtrack when they are searched for."""
    few = size - 16
    return (
        *(
            b"(a+)+$",
            b"(" * (few // 2) + b")" * (few // 2),
            b"a?" * (few // 2),
            b"(a|" * (few // 3),
        ),
        *(b"((a{0,99}){0,99}){0,99}", b"\\pL{1,999}" * (few // 10), b"[" * few, b"*" * few),
        *(b"**/" * (few // 3), b"{a,b}" * (few // 5), b"[!a-z]" * (few // 6), b"a*" * (few // 2)),
        *(b"?" * few, b"{" * few, b"{a," * (few // 3), b"{x}" * (few // 3), b"\\" * few),
    )


ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="regular expression",
        parse=_pattern,
        shape=languages.PATTERN,
        samples=texts(r"^(?:refs/heads/[a-z]{1,9}|v?\d+\.(\w*?)+)$", r"(?i)[[:alpha:]]\pL{3,}"),
        refuses=(ValueError,),
        worst=_repeats,
        size=4096,
        places=(
            "controllers/source/ocirepository.py pattern",
            "toolkit/apply/selector.py pattern",
            "toolkit/policy/urls.py pattern",
            "toolkit/regexp.py pattern",
            "toolkit/verify/cosign/policy.py pattern",
            "webhooks/validation/ocirepository.py pattern",
            "webhooks/validation/patterns.py pattern",
        ),
    ),
    Row(
        name="tag filter",
        parse=_tag_filter,
        shape=languages.PATTERN,
        samples=texts("^main-(?P<sha>[a-f0-9]+)-(?P<ts>[0-9]+)$\n${ts}$$$1", "(a+)+$\n$1"),
        worst=_repeats,
        size=4096,
        seconds=20.0,
        places=(
            "toolkit/policy/tags.py pattern",
            "webhooks/validation/imagepolicy.py pattern",
        ),
    ),
    Row(
        name="ignore rules",
        parse=_matched,
        shape=languages.GLOB,
        samples=texts("# a\n*.md\n!/docs/**/[a-z]?.md\n\\#b \n"),
        worst=lambda size: (*hostile.lines(size), *_repeats(1000), *_repeats(size)),
        refuses=(PenstockError, ValueError),
        seconds=4.0,
        places=("toolkit/artifact/glob.py pattern", "toolkit/artifact/ignore.py own"),
    ),
    Row(
        name="globs and path patterns of a generator",
        parse=each(_excluded, _captured, refuses=(PenstockError, ValueError)),
        shape=languages.GLOB,
        samples=texts("charts/{app,web}/**", "@charts/{name}/*.yaml"),
        worst=_repeats,
        size=4096,
        refuses=(PenstockError, ValueError),
        runs="controllers.source.generating.worker",
        places=(
            "toolkit/artifact/composition/globs.py own",
            "toolkit/artifact/composition/pathpattern.py own",
        ),
    ),
)
