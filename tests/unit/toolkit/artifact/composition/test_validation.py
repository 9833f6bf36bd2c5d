"""A spec that cannot work is refused before anything is fetched, with the field and the reason."""

from typing import Any

import msgspec
import pytest

from crds.extensions import ArtifactGeneratorSpec
from toolkit.artifact.composition import limits
from toolkit.artifact.composition.validation import problems, require_valid
from toolkit.errors import StalledError

COPY = {"from": "@git/apps/**", "to": "@artifact/"}


def spec(*artifacts: dict[str, Any], aliases: str = "git oci", pattern: str = "") -> Any:
    sources = [{"alias": a, "kind": "GitRepository", "name": "x"} for a in aliases.split()]
    body = {"sources": sources, "artifacts": list(artifacts) or [artifact()]}
    return msgspec.convert(
        body | ({"pathPattern": pattern} if pattern else {}), ArtifactGeneratorSpec
    )


def artifact(name: str = "app", *copies: dict[str, Any], **fields: str) -> dict[str, Any]:
    return {"name": name, "copy": list(copies) or [COPY], **fields}


@pytest.mark.parametrize(
    "valid",
    [
        spec(),
        spec(artifact("a"), artifact("b", revision="@oci", originRevision="@git")),
        spec(artifact("a", COPY | {"exclude": ["*.md", "**/x/**", "*.{a,b}"]})),
        spec(artifact("{a}-{b}", COPY | {"from": "@git/{a}/**"}), pattern="@git/x-{a}/*/{b}"),
        spec(artifact("a", {"from": "@git/", "to": "@artifact/./x"})),
        spec(artifact("app.web.v1")),
        spec(pattern="@git/"),
        spec(artifact("{a}-{b}"), pattern="@git/{a}-{b}/**"),
    ],
)
def test_a_spec_that_can_be_carried_out_passes(valid: ArtifactGeneratorSpec) -> None:
    require_valid(valid)


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        (spec(aliases="git git"), r"spec.sources\[1\]: the alias 'git' occurs twice"),
        (spec(artifact(), artifact()), r"spec.artifacts\[1\]: the name 'app' occurs twice"),
        (spec(artifact(revision="@no")), r"artifacts\[0\].revision: there is no source .* 'no'"),
        (spec(artifact(originRevision="@no")), r"\.originRevision: there is no source"),
        (
            spec(artifact("a", COPY, COPY | {"from": "@no/x"})),
            r"spec.artifacts\[0\].copy\[1\].from: there is no source with the alias 'no'",
        ),
        (spec(artifact("a", COPY | {"from": "@git/../x"})), r"copy\[0\].from .*points outside"),
        (spec(artifact("a", COPY | {"from": "@git/a/../../x/*"})), "points outside its root"),
        (spec(artifact("a", COPY | {"to": "@artifact/a/.."})), r"copy\[0\].to .*points outside"),
        (spec(artifact("a", COPY | {"to": "@artifact/a\0"})), "holds a name that no file can"),
        (spec(artifact("a", COPY | {"to": "@artifact/" + "ü" * 200})), "holds a name that no"),
        (spec(artifact("a", COPY | {"from": "@git/["})), "a bracket is not closed"),
        (spec(artifact("a", COPY | {"from": "@git/{a"})), "a brace is not closed"),
        (spec(artifact("a", COPY | {"from": "@git/" + "{a,b}" * 7})), "more than 64 patterns"),
        (spec(artifact("a", COPY | {"exclude": ["[a"]})), r"copy\[0\].exclude .*not closed"),
        (spec(artifact("a", COPY | {"exclude": ["!a"]})), "'!a' excludes nothing"),
        (spec(artifact("a", COPY | {"exclude": ["# a"]})), "'# a' excludes nothing"),
        (spec(pattern="@no/{a}"), "spec.pathPattern: there is no source with the alias 'no'"),
        (spec(artifact("{b}"), pattern="@git/{a}"), "the capture '{b}' is not defined"),
        (spec(artifact("{}"), pattern="@git/{a}"), "the capture '{}' is not defined"),
        (spec(pattern="@git/{a}/{a}"), "a capture occurs twice"),
        (spec(pattern="@git/{}"), "is not the name of a capture"),
        (spec(pattern="@git/{1a}"), "is not the name of a capture"),
        (spec(pattern="@git/{_a}"), "is not the name of a capture"),
        (spec(pattern="@git/{a-b}"), "is not the name of a capture"),
        (spec(pattern="@git/{a"), "has a brace without its other one"),
        (spec(pattern="@git/a}"), "has a brace without its other one"),
        (spec(pattern="@git/.."), "points outside its root"),
    ],
)
def test_what_cannot_work_is_refused_with_the_field(
    invalid: ArtifactGeneratorSpec, message: str
) -> None:
    with pytest.raises(StalledError, match=message) as caught:
        require_valid(invalid)

    assert caught.value.reason == "ValidationFailed"


def test_operations_are_bounded_and_counted_quickly() -> None:
    many = [artifact(f"a{number}", *[COPY] * 11) for number in range(1000)]

    with pytest.raises(StalledError, match=f"more than {limits.OPERATIONS} copy operations"):
        require_valid(spec(*many))


def test_everything_that_is_wrong_is_told_at_once() -> None:
    invalid = spec(
        artifact("{b}", COPY | {"from": "@no/["}),
        artifact("{b}", COPY | {"to": "@artifact/.."}),
        pattern="@git/{a}",
    )

    assert [problem.field for problem in problems(invalid)] == [
        "spec.pathPattern",
        "spec.artifacts[1]",
        "spec.artifacts[0].copy[0].from",
        "spec.artifacts[0].copy[0].from",
        "spec.artifacts[1].copy[0].to",
    ]


def test_what_its_globs_stand_for_is_bounded() -> None:
    exclude = ["{a,b}{c,d}{e,f}{g,h}{i,j}{k,l}"] * 100
    many = spec(artifact("a", *[COPY | {"exclude": exclude}] * 4))

    (problem,) = problems(many)

    assert problem.why == "its globs stand for more than 20000 patterns"
