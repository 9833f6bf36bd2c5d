"""What is wrong with a document is told by field, value, rule and remedy, in no library's words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct, inspect

import crds
from crds import forms, misfits
from tests.fakes import specs

ROOT = Path(__file__).parents[3]
THEIRS = re.compile(r"Expected|`\$|\$\.|matching regex|Invalid enum|Object (missing|contains)")
MODELS = {
    f"{kind.group}/{version} {kind.kind}": model
    for kind in crds.KINDS
    for version, model in [
        (kind.version, kind.model),
        *((old.version, old.model) for old in kind.older),
    ]
}
Step = str | int
Case = tuple[tuple[Step, ...], Any, str]


def bare(kind: inspect.Type) -> inspect.Type:
    if isinstance(kind, inspect.Metadata):
        return bare(kind.type)
    if isinstance(kind, inspect.UnionType):
        return bare(next(each for each in kind.types if not isinstance(each, inspect.NoneType)))
    return kind


def right(kind: inspect.Type) -> Any:
    """Return a value that a type takes, with required fields alone."""
    match bare(kind):
        case inspect.StructType(fields=fields):
            return {each.encode_name: right(each.type) for each in fields if each.required}
        case inspect.ListType(item_type=item, min_length=least):
            return [right(item)] * (least or 0)
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.StrType(pattern=pattern):
            return next(text for text in EXAMPLES if re.search(pattern or "", text))
        case other:
            return {inspect.BoolType: True, inspect.IntType: 7}.get(type(other), {})


EXAMPLES = (
    *("5m", "https://example.com/x", "oci://example.com/x", "name", "sha256:0", "Ready"),
    *("@alias", "@alias/x", "@artifact/x", "ghcr.io/acme/*", "0123456789" * 4),
)


def wrongs(kind: inspect.Type, place: tuple[Step, ...]) -> Iterator[Case]:
    """Yield place, wrong value and a word of the rule, for every field of a type."""
    match bare(kind):
        case inspect.StructType(fields=fields):
            yield place, 7, "an object"
            for each in fields:
                if each.required:
                    yield (*place, each.encode_name), MISSING, "missing"
                yield from wrongs(each.type, (*place, each.encode_name))
        case inspect.ListType() as listed:
            yield from ((place, value, rule) for value, rule in lists(listed))
            yield from wrongs(listed.item_type, (*place, 0))
        case inspect.DictType(value_type=inner):
            yield place, "no object", "an object"
            if not isinstance(bare(inner), inspect.StructType):  # msgspec does not tell the key
                yield from wrongs(inner, (*place, "some-key"))
        case inspect.StrType() as text:
            yield from ((place, value, rule) for value, rule in texts(text))
        case other:
            yield from ((place, value, rule) for value, rule in words(other))


def lists(listed: inspect.ListType) -> Iterator[tuple[Any, str]]:
    yield "no list", "a list"
    if listed.min_length:
        yield [], f"at least {listed.min_length} entries"
    if listed.max_length:
        many = [right(listed.item_type)] * (listed.max_length + 1)
        yield many, f"at most {listed.max_length} entries"


def texts(text: inspect.StrType) -> Iterator[tuple[Any, str]]:
    yield 12, "text"
    if text.pattern:
        if not re.search(text.pattern, BAD):
            yield BAD, forms.FORMS[text.pattern][0]
        return
    if text.min_length:
        yield "", f"at least {text.min_length} characters"
    if text.max_length:
        yield "x" * (text.max_length + 1), f"at most {text.max_length} characters"


def words(kind: inspect.Type) -> Iterator[tuple[Any, str]]:
    if isinstance(kind, inspect.LiteralType):
        yield "NoSuchWord", ", ".join(str(each) for each in kind.values)
        yield 12, "text"
    if isinstance(kind, inspect.BoolType):
        yield "maybe", "true or false"
    if isinstance(kind, inspect.IntType):
        yield "three", "a whole number"
        if kind.ge is not None:
            yield kind.ge - 1, f"at least {kind.ge}"


BAD = "No/such\\form:"
MISSING = object()


def changed(kind: inspect.Type, place: tuple[Step, ...], value: Any) -> Any:
    """Return a right document but for one place."""
    if not place:
        return value
    step, *rest = place
    whole = right(kind)
    match bare(kind):
        case inspect.StructType(fields=fields):
            inner = next(each.type for each in fields if each.encode_name == step)
        case inspect.ListType(item_type=inner):
            return [changed(inner, tuple(rest), value)]
        case inspect.DictType(value_type=inner):
            pass
        case _:
            raise AssertionError(place)
    if value is MISSING and not rest:
        del whole[step]
        return whole
    return whole | {step: changed(inner, tuple(rest), value)}


def path(place: tuple[Step, ...]) -> str:
    written = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return "".join(written).removeprefix(".")


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_field_of_every_kind_tells_field_value_rule_and_remedy(model: type[Struct]) -> None:
    info = inspect.type_info(model)
    seen = 0

    for place, value, rule in wrongs(info, ()):
        document = changed(info, place, value)
        with pytest.raises(msgspec.ValidationError) as caught:
            msgspec.convert(document, model)
        found = misfits.explain(caught.value, document, model)

        said = str(found)
        assert not THEIRS.search(said), said
        assert found.field == path(place), said
        assert rule in f"{found.why}: {found.remedy}", said
        assert found.remedy, said
        if isinstance(value, str | int) and len(str(value)) in range(1, 90):
            hidden = not misfits.SECRET.isdisjoint(step for step in place if isinstance(step, str))
            assert (found.value == "") == hidden, said
        seen += 1

    assert seen > 10


def test_a_pattern_of_a_model_is_told_in_words() -> None:
    used = {p for model in MODELS.values() for p in _patterns(inspect.type_info(model))}

    assert used == set(forms.FORMS)


def _patterns(kind: inspect.Type) -> Iterator[str]:
    match bare(kind):
        case inspect.StructType(fields=fields):
            for each in fields:
                yield from _patterns(each.type)
        case inspect.ListType(item_type=inner) | inspect.DictType(value_type=inner):
            yield from _patterns(inner)
        case inspect.StrType(pattern=str(pattern)):
            yield pattern


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"interval": "1d"},
            "spec.interval '1d': it must be a duration in h, m, s and ms: write for example 5m",
        ),
        (
            {"url": "htp:/me:s3cret@git.example.com/x"},
            "spec.url '…@git.example.com/x': it must be a URL over HTTP, HTTPS or SSH: write https",
        ),
        (
            {"suspend": "yes"},
            "spec.suspend 'yes': it must be true or false, and is text: write one",
        ),
        ({"interval": None}, "spec.interval: it must be text, and is nothing: write a value, or"),
    ],
)
def test_a_message_reads_as_a_sentence(spec: dict[str, Any], said: str) -> None:
    document = {"spec": specs.RIGHT["GitRepository"] | spec}

    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(document, crds.GIT_REPOSITORY.model)

    told = misfits.told(caught.value, document, crds.GIT_REPOSITORY.model)
    assert told.startswith(said)
    assert "s3cret" not in told


def test_a_secret_is_not_repeated() -> None:
    spec = specs.RIGHT["Kustomization"] | {"postBuild": {"substitute": {"a": "b", "TOKEN": 4711}}}

    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({"spec": spec}, crds.KUSTOMIZATION.model)

    told = misfits.told(caught.value, {"spec": spec}, crds.KUSTOMIZATION.model)
    assert told.startswith("spec.postBuild.substitute.TOKEN: it must be text")
    assert "4711" not in told


class Login(Struct, forbid_unknown_fields=True):
    """Something that a Secret holds."""

    kind: str
    logins: dict[str, int] = {}


@pytest.mark.parametrize("document", [{"kind": 1234}, {"kind": "", "s3cret": 1}, {"kind": None}])
def test_nothing_of_a_document_is_told_that_was_not_given(document: Any) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(document, Login)

    assert not re.search("1234|s3cret", misfits.told(caught.value))


def test_an_entry_without_a_document_has_no_name() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({"kind": "", "logins": {"me": "s3cret"}}, Login)

    assert misfits.told(caught.value).startswith(
        "logins[…]: it must be a whole number, and is text"
    )


def handlers() -> Iterator[tuple[Path, ast.ExceptHandler]]:
    for folder in ("crds", "toolkit", "controllers", "webhooks", "apiserver", "cli", "certs"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ExceptHandler) and node.type and node.name:
                    yield file, node


def test_no_handler_repeats_what_msgspec_says() -> None:
    told = []
    for file, handler in handlers():
        caught = ast.unparse(handler.type or ast.Constant(value=""))
        body = "\n".join(ast.unparse(each) for each in handler.body)
        raw = re.search(rf"\{{{handler.name}\}}|str\({handler.name}\)", body)
        if "msgspec." in caught and raw:
            told.append(f"{file.relative_to(ROOT)}:{handler.lineno}")

    assert told == []


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"interval": 10, "prune": True},
            (
                "spec.interval '10': it must be text, and is a whole number: "
                "write for example 5m or 1h30m"
            ),
        ),
        ({"interval": "5m"}, "spec.prune: it is missing: write true or false"),
        ({"prune": True}, "spec.interval: it is missing: write for example 5m or 1h30m"),
        (
            {"interval": "5m", "prune": True, "sourceRef": {"name": "a"}},
            (
                "spec.sourceRef.kind: it is missing: "
                "write Bucket, ExternalArtifact, GitRepository, OCIRepository"
            ),
        ),
        (
            {"interval": "5m", "prune": True, "sourceRef": {"name": "a", "kind": 1}},
            (
                "spec.sourceRef.kind '1': it must be text, and is a whole number: "
                "write Bucket, ExternalArtifact, GitRepository, OCIRepository"
            ),
        ),
        (
            {"interval": "5m", "prune": True, "decryption": {}},
            "spec.decryption.provider: it is missing: write sops",
        ),
    ],
)
def test_the_remedy_says_what_fits_the_field(spec: Any, told: str) -> None:
    document = {"metadata": {"name": "it"}, "spec": spec}
    model = MODELS["kustomize.toolkit.fluxcd.io/v1 Kustomization"]

    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(document, model)

    assert misfits.told(raised.value, document, model) == told
