"""Every rule lets the right through and finds the wrong, with the field and the reason."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes import specs
from toolkit.expressions.evaluator import Evaluator
from toolkit.objects import Json
from webhooks.validation import CHECKS, admission, ignored, patches, shapes, verdict
from webhooks.validation.rule import Checks, Judges

TEMPLATE = "message-template"
BY_KIND = {checks.kind.kind: checks for checks in CHECKS}


def made(kind: str, spec: Json) -> Json:
    checks = BY_KIND[kind]
    namespace = {"namespace": "apps"} if checks.kind.namespaced else {}
    metadata = {"name": "self", **namespace, "annotations": spec.get("annotations", {})}
    body = {k: v for k, v in {**specs.RIGHT[kind], **spec}.items() if k != "annotations"}
    return {
        "apiVersion": checks.kind.api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": body,
    }


_HERE: dict[str, Judges] = {}


@pytest.fixture(autouse=True)
def _engine(evaluates: Evaluator) -> None:
    unused: Any = None
    _HERE["judges"] = Judges(engine=unused, evaluates=evaluates)


def findings(checks: Checks[Any], obj: Json) -> list[verdict.Finding]:
    """Return all findings except those about templates."""
    by_engine = replace(checks, judged=tuple(e for e in checks.judged if e.rule.name != TEMPLATE))
    judged = asyncio.run(admission.judged(_HERE["judges"], by_engine, obj))
    return [*verdict.findings(checks, obj), *judged]


def found(kind: str, spec: Json) -> list[verdict.Finding]:
    return findings(BY_KIND[kind], made(kind, spec))


def test_there_is_a_right_spec_of_every_kind() -> None:
    assert set(specs.RIGHT) == set(BY_KIND)


@pytest.mark.parametrize(("kind", "spec"), [*((k, {}) for k in specs.RIGHT), *specs.ALSO_RIGHT])
def test_what_is_right_is_let_through_without_a_word(kind: str, spec: Json) -> None:
    assert found(kind, spec) == []


@pytest.mark.parametrize(
    ("kind", "spec", "rule", "field", "words"), specs.REFUSED, ids=lambda value: str(value)[:40]
)
def test_what_cannot_work_is_refused(
    kind: str, spec: Json, rule: str, field: str, words: str
) -> None:
    (finding,) = [each for each in found(kind, spec) if each.rule.refuses]

    assert (finding.rule.name, finding.fault.field) == (rule, field)
    assert words in finding.fault.shown


@pytest.mark.parametrize(
    ("kind", "spec", "rule", "field", "words"), specs.WARNED, ids=lambda value: str(value)[:40]
)
def test_what_is_hardly_meant_is_warned_of(
    kind: str, spec: Json, rule: str, field: str, words: str
) -> None:
    (finding,) = found(kind, spec)

    assert not finding.rule.refuses
    assert (finding.rule.name, finding.fault.field) == (rule, field)
    assert words in finding.fault.shown


def test_patterns_that_take_a_second_to_compile_are_refused_early() -> None:
    large = [rf"(\pL{{3}}){{3}}{number}" for number in range(256)]
    patches = [{"patch": "a: b", "target": {"name": text}} for text in large]

    for kind, spec, field in (
        ("Alert", {"exclusionList": large}, "spec.exclusionList["),
        ("Kustomization", {"patches": patches}, "spec.patches["),
        (
            "HelmRelease",
            {"postRenderers": [{"kustomize": {"patches": patches}}]},
            "spec.postRenderers[0].kustomize.patches[",
        ),
    ):
        (finding,) = found(kind, spec)
        assert finding.fault.field.startswith(field)
        assert "compiles to more than 65536 instructions" in finding.fault.why

    assert found("Alert", {"exclusionList": [f"upgrade of {n} failed" for n in range(256)]}) == []


def all_rules(checks: Checks[Any]) -> set[str]:
    return {rule.name for rule in (*shapes.rules(checks), *checks.rules)}


def test_every_rule_is_tried() -> None:
    tried = {case[2] for case in (*specs.REFUSED, *specs.WARNED)}

    # The second is judged by the engine, which test_admission asks.
    others = {"patch-target-empty", "message-template"}
    assert set().union(*map(all_rules, CHECKS)) - tried == others


def test_an_empty_target_of_old_patches_is_refused() -> None:
    patch = {"patch": [], "target": {}}

    rules = [each.rule.name for each in found("Kustomization", {"patchesJson6902": [patch]})]

    assert rules == ["patch-target-empty", "deprecated-patches"]


def test_an_index_that_is_no_registry_is_lent_nothing() -> None:
    told = found("HelmRepository", {"insecure": True, "provider": "aws"})

    assert [each.rule.name for each in told] == ["field-unused", "field-unused"]


def test_a_branch_beside_a_commit_is_not_overruled() -> None:
    ref = {"commit": "a" * 40, "tag": "v1", "branch": "main"}

    told = found("GitRepository", {"ref": ref})

    assert [each.fault.field for each in told] == ["spec.ref.tag"]


def test_a_password_in_a_url_is_not_repeated() -> None:
    for url in ("https://me:s3cret@git.example.com:x/", "https://me:s3cret@git.example.com/"):
        told = found("GitRepository", {"url": url})
        assert told
        assert "s3cret" not in str([each.fault for each in told])
    for kind, spec in (
        ("OCIRepository", {"url": "oci://me:s3cret@registry/x"}),
        ("HelmRepository", {"url": "oci://me:s3cret@registry/x", "type": "oci"}),
        ("Bucket", {"endpoint": "https://me:s3cret@minio"}),
    ):
        assert found(kind, spec)
        assert "s3cret" not in str([each.fault for each in found(kind, spec)])


def test_what_a_patch_holds_is_not_repeated() -> None:
    (finding,) = found("Kustomization", {"patches": [{"patch": "data: {password: s3cret"}]})

    assert "it is not YAML (line 2, column 1)" in finding.fault.why
    assert "s3cret" not in finding.fault.shown


@pytest.mark.parametrize("kind", sorted(specs.RIGHT))
def test_what_controllers_cannot_read_is_refused(kind: str) -> None:
    (finding,) = verdict.findings(BY_KIND[kind], {**made(kind, {}), "metadata": {"name": 1}})

    assert finding.rule.name == "unreadable"
    assert finding.fault.shown == "metadata.name '1': it must be text, and is a whole number"
    assert finding.rule.remedy == "quote it"


def test_patterns_are_bounded_in_what_they_take_to_compile() -> None:
    heavy = {"issuer": r"(\pL|\pN){900}", "subject": "^x$"}

    told = found("OCIRepository", {"verify": {"matchOIDCIdentity": [heavy]}})

    assert "too large" in told[0].fault.why


def test_patterns_of_identities_are_bounded_together() -> None:
    large = {"issuer": "^x$", "subject": "a" * 4000}

    told = found("OCIRepository", {"verify": {"matchOIDCIdentity": [large] * 20}})

    assert [each.fault.field for each in told if "65536 instructions" in each.fault.why] == [
        "spec.verify.matchOIDCIdentity[16]"
    ]


def test_text_that_is_slow_to_parse_is_left_to_the_build() -> None:
    assert found("Kustomization", {"patches": [{"patch": "a: " + "[" * 20_000}]}) == []
    assert found("Kustomization", {"patches": [{"patch": "a: b\n" * 200_000}]}) == []


def test_long_texts_are_checked_and_not_kept() -> None:
    patch, expression = "a: [" + " " * (5 << 10), "true" + " " * (5 << 10)
    target = {"kind": "Pod", "labelSelector": "a=" + "b" * (5 << 10)}
    caches = (patches.parsed, ignored.unselectable)
    spec = {
        "wait": True,
        "ignore": [{"paths": ["/spec/replicas"], "target": target}],
        "patches": [{"patch": patch}],
        "healthCheckExprs": [{"apiVersion": "v1", "kind": "Pod", "current": expression}],
    }
    kept = [cache.cache_info().currsize for cache in caches]

    rules = [each.rule.name for each in found("Kustomization", spec)]

    assert rules == ["patch-text", "ignore-pointer", "cel-expression"]
    assert kept == [cache.cache_info().currsize for cache in caches]


def written() -> list[Json]:
    seeds = Path(__file__).parents[3] / "testdata" / "seeds"
    every = [obj for path in sorted(seeds.glob("*.yaml")) for obj in _documents(path)]
    return [obj for obj in every if obj["kind"] in BY_KIND and obj.get("spec")]


def _documents(path: Path) -> list[Json]:
    return [each for each in yaml.safe_load_all(path.read_text()) if isinstance(each, dict)]


@pytest.mark.parametrize("seed", written(), ids=lambda obj: f"{obj['kind']}-{obj['metadata']}")
def test_what_users_of_flux_have_in_git_is_let_in(seed: Json) -> None:
    checks = BY_KIND[seed["kind"]]
    converted = {**seed, "apiVersion": checks.kind.api_version}

    refused = [each for each in findings(checks, converted) if each.rule.refuses]

    # some leave out what the schema demands, in excerpts
    assert {each.rule.name for each in refused} <= {"unreadable"}
