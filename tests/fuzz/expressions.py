"""Readers of what is evaluated: expressions, patterns, globs and templates of ours."""

from typing import Final

from crds.image import AlphabeticalPolicy, ImagePolicyChoice, TagFilter
from tests.fuzz import hostile
from tests.fuzz.reader import Row, each, text, texts
from toolkit import regexp
from toolkit.apply.expressions import Expression
from toolkit.artifact.composition import globs, pathpattern
from toolkit.artifact.ignore import Ignore
from toolkit.errors import PenstockError
from toolkit.policy import tags, urls


def _expression(data: bytes) -> object:
    return Expression(text(data)).holds({"self": {"a": [1, "b"]}, "dep": {}, "object": {}})


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

ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="CEL expression",
        parse=_expression,
        samples=texts(
            "self.a.filter(x, x == 'b').size() > 0 && has(dep.b) ? true : [1, 2u].all(y, y < 3)",
            "self.a[1].matches(r'b+') || timestamp('2026-01-01T00:00:00Z') > duration('1s')",
        ),
        worst=lambda: _CEL,
        places=("toolkit/apply/celengine.py own",),
    ),
    Row(
        name="regular expression",
        parse=_pattern,
        samples=texts(r"^(?:refs/heads/[a-z]{1,9}|v?\d+\.(\w*?)+)$", r"(?i)[[:alpha:]]\pL{3,}"),
        refuses=(ValueError,),
        worst=lambda: _repeats(4096),
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
        samples=texts("^main-(?P<sha>[a-f0-9]+)-(?P<ts>[0-9]+)$\n${ts}$$$1", "(a+)+$\n$1"),
        worst=lambda: _repeats(4096),
        seconds=20.0,
        places=(
            "toolkit/policy/tags.py pattern",
            "webhooks/validation/imagepolicy.py pattern",
        ),
    ),
    Row(
        name="ignore rules",
        parse=_matched,
        samples=texts("# a\n*.md\n!/docs/**/[a-z]?.md\n\\#b \n"),
        worst=lambda: (*hostile.lines(1 << 20), *_repeats(1000), *_repeats(1 << 20)),
        refuses=(PenstockError, ValueError),
        seconds=4.0,
        places=("toolkit/artifact/glob.py pattern", "toolkit/artifact/ignore.py own"),
    ),
    Row(
        name="globs and path patterns of a generator",
        parse=each(_excluded, _captured, refuses=(PenstockError, ValueError)),
        samples=texts("charts/{app,web}/**", "@charts/{name}/*.yaml"),
        worst=lambda: _repeats(4096),
        refuses=(PenstockError, ValueError),
        runs="controllers.source.generating.worker",
        places=(
            "toolkit/artifact/composition/globs.py own",
            "toolkit/artifact/composition/pathpattern.py own",
        ),
    ),
)
