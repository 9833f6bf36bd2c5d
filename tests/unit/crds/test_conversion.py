"""Whatever is written in a version is read back in it, whichever version it went through."""

import copy
import functools
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crds
from crds import change, conversion, meta, versions
from crds.conversion import PREFIX, ConversionError, Converter
from crds.kind import Kind, OldVersion
from tests.fakes import schemas

CONVERTER = Converter(crds.KINDS)
PAIRS = [(kind, old) for kind in crds.KINDS for old in kind.older]
# What is only relabelled goes the same way for all kinds: one of them is drawn for each example.
WAYS = pytest.mark.parametrize(
    "pairs",
    [
        *(
            pytest.param([(kind, old)], id=f"{kind.kind}-{old.version}")
            for kind, old in PAIRS
            if not old.relabelled
        ),
        pytest.param([pair for pair in PAIRS if pair[1].relabelled], id="relabelled"),
    ],
)
Pairs = list[tuple[Kind[Any], OldVersion]]
HASH = "0123456789" * 4
SHA256 = "ab" * 32
GIT = "source.toolkit.fluxcd.io"
KS = "kustomize.toolkit.fluxcd.io"


@functools.cache
def stored(kind: Kind[Any]) -> st.SearchStrategy[Any]:
    return schemas.objects(kind.api_version, kind.kind, versions.newest(kind))


@functools.cache
def written(kind: Kind[Any], old: OldVersion) -> st.SearchStrategy[Any]:
    api_version = f"{kind.group}/{old.version}"
    return schemas.objects(api_version, kind.kind, versions.older(kind, old))


def convert(obj: Any, to: str) -> Any:
    before = copy.deepcopy(obj)
    result = CONVERTER.convert(obj, to)
    assert obj == before
    return json.loads(json.dumps(result))


def git(version: str, spec: Any = None, status: Any = None, **metadata: Any) -> Any:
    spec = {"url": "https://example.com/r.git", "interval": "5m"} | (spec or {})
    return {
        "apiVersion": f"{GIT}/{version}",
        "kind": "GitRepository",
        "metadata": {"name": "fleet", "namespace": "apps"} | metadata,
        "spec": spec,
    } | ({"status": status} if status is not None else {})


def artifact(**fields: Any) -> Any:
    return {
        "path": "p",
        "url": "http://a/p",
        "revision": f"main@sha1:{HASH}",
        "lastUpdateTime": "2026-01-01T00:00:00Z",
    } | fields


@WAYS
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_an_old_object_comes_back_from_the_stored_version(
    pairs: Pairs, data: st.DataObject
) -> None:
    kind, old = data.draw(st.sampled_from(pairs))
    obj = data.draw(written(kind, old))

    assert convert(convert(obj, kind.api_version), obj["apiVersion"]) == obj


@WAYS
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_stored_object_comes_back_from_an_old_version(pairs: Pairs, data: st.DataObject) -> None:
    kind, old = data.draw(st.sampled_from(pairs))
    obj = data.draw(stored(kind))

    assert convert(convert(obj, f"{kind.group}/{old.version}"), kind.api_version) == obj


@pytest.mark.parametrize("kind", [kind for kind in crds.KINDS if len(kind.older) > 1])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_an_old_object_comes_back_from_another_old_version(
    kind: Kind[Any], data: st.DataObject
) -> None:
    newer, *_, oldest = kind.older
    obj = data.draw(written(kind, oldest))

    between = convert(obj, f"{kind.group}/{newer.version}")

    assert convert(between, obj["apiVersion"]) == obj


@WAYS
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_stored_holds_no_original_of_its_own_version(
    pairs: Pairs, data: st.DataObject
) -> None:
    kind, old = data.draw(st.sampled_from(pairs))
    obj = data.draw(written(kind, old))

    annotations = convert(obj, kind.api_version)["metadata"].get("annotations", {})

    assert PREFIX + kind.version not in annotations


@WAYS
@settings(max_examples=25, deadline=None)
@given(data=st.data(), text=st.text(max_size=20) | st.just('{"status.artifact":[1]}'))
def test_a_forged_original_neither_fails_nor_replaces_what_is_there(
    pairs: Pairs, data: st.DataObject, text: str
) -> None:
    kind, old = data.draw(st.sampled_from(pairs))
    obj = data.draw(written(kind, old))
    forged = copy.deepcopy(obj)
    forged["metadata"]["annotations"] = {PREFIX + kind.version: text, PREFIX + old.version: text}

    plain, result = (convert(each, kind.api_version) for each in (obj, forged))

    if old.changes:
        assert (result["spec"], result.get("status")) == (plain["spec"], plain.get("status"))


def test_a_relabelled_version_keeps_every_field_as_it_is() -> None:
    spec = {
        "validation": "client",
        "patchesStrategicMerge": [{"kind": "Deployment"}],
        "patchesJson6902": [{"patch": [], "target": {"kind": "Deployment"}}],
    }
    obj = {"apiVersion": f"{KS}/v1beta2", "kind": "Kustomization", "metadata": {}, "spec": spec}

    assert convert(obj, f"{KS}/v1") == obj | {"apiVersion": f"{KS}/v1"}


def test_a_duration_without_a_pattern_is_stored_in_units_that_have_one() -> None:
    result = convert(git("v1beta1", {"interval": "100us", "timeout": "1h"}), f"{GIT}/v1")

    assert (result["spec"]["interval"], result["spec"]["timeout"]) == ("0.1ms", "60m")
    assert json.loads(result["metadata"]["annotations"][f"{PREFIX}v1beta1"]) == {
        "spec.interval": "100us",
        "spec.timeout": "1h",
    }


def test_an_ordinary_object_gets_no_annotation() -> None:
    result = convert(git("v1beta1", {"timeout": "60s"}), f"{GIT}/v1")

    assert "annotations" not in result["metadata"]


def test_an_edit_in_the_stored_version_voids_the_original() -> None:
    obj = convert(git("v1beta1", {"interval": "100us", "timeout": "1h"}), f"{GIT}/v1")
    obj["spec"]["timeout"] = "5m"

    result = convert(obj, f"{GIT}/v1beta1")

    assert (result["spec"]["interval"], result["spec"]["timeout"]) == ("100us", "5m")
    assert "annotations" not in result["metadata"]


def test_a_field_that_is_removed_in_the_stored_version_stays_removed() -> None:
    obj = convert(git("v1beta1", {"timeout": "1h"}), f"{GIT}/v1")
    del obj["spec"]["timeout"]

    assert "timeout" not in convert(obj, f"{GIT}/v1beta1")["spec"]


def test_an_old_artifact_gets_digest_and_revision() -> None:
    old = artifact(checksum=SHA256, revision=f"main/{HASH}")

    result = convert(git("v1beta1", status={"artifact": old}), f"{GIT}/v1")

    found = result["status"]["artifact"]
    assert (found["digest"], found["revision"]) == (f"sha256:{SHA256}", f"main@sha1:{HASH}")
    assert "checksum" not in found
    assert "annotations" not in result["metadata"]


def test_an_artifact_is_read_in_the_old_version_with_checksum() -> None:
    new = artifact(digest=f"sha256:{SHA256}", size=7, metadata={"a": "b"})

    found = convert(git("v1", status={"artifact": new}), f"{GIT}/v1beta1")["status"]["artifact"]

    assert (found["checksum"], found["revision"]) == (SHA256, f"main/{HASH}")
    assert "digest" not in found
    assert (found["size"], found["metadata"]) == (7, {"a": "b"})


def test_an_artifact_without_a_digest_is_none_in_the_stored_version() -> None:
    status = {"artifact": artifact(checksum=""), "includedArtifacts": [artifact()]}

    result = convert(git("v1beta1", status=status), f"{GIT}/v1")

    assert result["status"] == {}
    assert convert(result, f"{GIT}/v1beta1")["status"] == status


def test_a_new_artifact_replaces_the_one_that_could_not_be_stored() -> None:
    obj = convert(git("v1beta1", status={"artifact": artifact(checksum="")}), f"{GIT}/v1")
    obj["status"]["artifact"] = artifact(digest=f"sha256:{SHA256}")

    found = convert(obj, f"{GIT}/v1beta1")["status"]["artifact"]

    assert found["checksum"] == SHA256


def test_a_status_of_the_old_version_is_not_mixed_with_the_one_before() -> None:
    before = git("v1", status={"artifact": artifact(revision=f"main/{HASH}")})
    view = convert(before, f"{GIT}/v1beta1")
    view["status"]["artifact"]["revision"] = f"next/{HASH}"

    found = convert(view, f"{GIT}/v1")["status"]

    assert found.get("artifact", {}).get("revision") != f"main/{HASH}"


def test_every_stored_interval_that_was_a_duration_can_be_read() -> None:
    for text in ("100us", "1.5h", ".5s", "3ns", "0", "1h2m3s4ms"):
        stored_text = convert(git("v1beta1", {"timeout": text}), f"{GIT}/v1")["spec"]["timeout"]

        assert meta.parse_duration(stored_text) == pytest.approx(meta.parse_duration(text))
        assert change.duration("spec", hours=False).up(stored_text) == stored_text


def test_what_is_no_duration_is_left_for_others_to_refuse() -> None:
    for text in ("often", "-5m", "", "1d", "9" * 1000 + "h", None, 7, ["1h"]):
        obj = git("v1beta1", {"timeout": text})

        assert convert(obj, f"{GIT}/v1")["spec"]["timeout"] == text


def test_originals_that_do_not_fit_are_let_go() -> None:
    long = artifact(checksum="", path="p" * conversion.LIMIT)
    obj = git("v1beta1", {"timeout": "1h"}, {"artifact": long})

    result = convert(obj, f"{GIT}/v1")

    assert json.loads(result["metadata"]["annotations"][f"{PREFIX}v1beta1"]) == {
        "spec.timeout": "1h"
    }


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "not an object but null"),
        ([], "not an object but a list"),
        ({}, "object: kind: not a kind of None"),
        ({"apiVersion": f"{GIT}/v1beta1", "kind": "Pod"}, "Pod: kind: not a kind of"),
        ({"apiVersion": "v1", "kind": "GitRepository"}, "GitRepository: kind: not a kind of v1"),
        (git("v9"), f"GitRepository has no version {GIT}/v9: {GIT} has v1, v1beta2, v1beta1"),
        (git("v1beta1") | {"metadata": []}, "metadata: must be an object, not a list"),
        (git("v1beta1", annotations="x"), "metadata.annotations: must be an object, not a string"),
        (
            git("v1beta1") | {"spec": 7},
            "GitRepository/apps/fleet: spec: must be an object, not a n",
        ),
        (git("v1beta1", status=True), "status: must be an object, not a boolean"),
    ],
)
def test_what_is_no_object_of_the_version_is_refused_by_name(obj: Any, message: str) -> None:
    with pytest.raises(ConversionError, match=re.escape(message)):
        CONVERTER.convert(obj, f"{GIT}/v1")


def test_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConversionError, match="GitRepository has no version"):
        CONVERTER.convert(git("v1"), f"{KS}/v1beta1")


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["spec", "status", "artifact", "metadata", "annotations", "timeout", "checksum"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
)
def test_whatever_comes_is_converted_or_refused(value: Any) -> None:
    for obj in (value, git("v1beta1") | value if isinstance(value, dict) else value):
        for to in (f"{GIT}/v1", f"{GIT}/v1beta2"):
            try:
                assert CONVERTER.convert(obj, to)["apiVersion"] == to
            except ConversionError as error:
                assert str(error)  # noqa: PT017 - either is fine


@pytest.mark.parametrize(
    "kind", [kind for kind in crds.KINDS if kind.older], ids=lambda kind: kind.kind
)
def test_an_object_without_spec_is_converted(kind: Kind[Any]) -> None:
    converter = Converter(crds.KINDS)
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "app"}}

    for old in kind.older:
        there = converter.convert(obj, f"{kind.group}/{old.version}")
        assert "spec" not in there
        assert converter.convert(there, kind.api_version) == obj
