"""The plugin: what changes is judged, all at once, and nothing stands in the way of the rest."""

import dataclasses
from typing import Any

import msgspec
import pytest

from tests.fakes import admission, specs
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json
from webhooks.plugin import DeniedError
from webhooks.validation import CHECKS
from webhooks.validation.admission import ROW, RULES, Validation

GIT = "source.toolkit.fluxcd.io/v1"
KS = "kustomize.toolkit.fluxcd.io/v1"
FLUX = ("GitRepository", "OCIRepository", "Bucket", "HelmRepository", "HelmChart")
FLUX += ("ArtifactGenerator", "Kustomization")
BAD = {"url": "https:///app", "ref": {"semver": "latest"}}
APPLIER = {"provenance.penstock.dev/applier": ("Kustomization/apps/all",)}


def git(name: str = "app", *, namespace: str = "apps", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": namespace}
    body = {**specs.RIGHT["GitRepository"], **spec}
    return {"apiVersion": GIT, "kind": "GitRepository", "metadata": metadata, "spec": body}


def kustomization(name: str, *waits_for: str, namespace: str = "apps") -> Json:
    metadata = {"name": name, "namespace": namespace}
    keys = [key.rpartition("/") for key in waits_for]
    depends = [{"name": n} | ({"namespace": ns} if ns else {}) for ns, _, n in keys]
    body = {**specs.RIGHT["Kustomization"], "dependsOn": depends}
    return {"apiVersion": KS, "kind": "Kustomization", "metadata": metadata, "spec": body}


def plugin(*objects: Json) -> Validation:
    return Validation.make(admission.services(objects=objects))


async def refusal(*objects: Json, asked: Any) -> DeniedError:
    denial = await admission.denied(plugin(*objects), asked)
    assert isinstance(denial, DeniedError)
    return denial


async def test_all_that_is_wrong_is_told_at_once_with_field_and_remedy() -> None:
    denial = await refusal(asked=admission.request(git(**BAD)))

    assert (denial.code, denial.reason) == (422, "Invalid")
    assert [(cause.field, cause.reason) for cause in denial.causes] == [
        ("spec.url", "FieldValueInvalid"),
        ("spec.ref.semver", "FieldValueInvalid"),
    ]
    assert str(denial) == (
        "GitRepository/apps/app cannot work: [spec.url: invalid repository URL 'https:///app': it "
        "must start with http://, https:// or ssh:// and name a host: write it as "
        "https://<host>/<path> or ssh://git@<host>/<path> (git-url), spec.ref.semver: 'latest' is "
        "not a range of versions: write it as '>=1.2.0 <2.0.0', '1.x' or '~1.4' (semver-range)]"
    )


async def test_a_warning_lets_the_object_in() -> None:
    answer = await admission.admitted(plugin(), admission.request(git(interval="1s")))

    assert answer.object is None
    assert answer.warnings == (
        "spec.interval '1s': less than 10 s is work without end: write a minute or more",
    )


async def test_what_was_wrong_before_is_only_warned_of() -> None:
    old, new = git(**BAD), git(**BAD, suspend=True)

    answer = await admission.admitted(plugin(), admission.request(new, old=old))

    assert [line.partition(" ")[0] for line in answer.warnings] == ["spec.url:", "spec.ref.semver:"]


async def test_what_is_wrong_anew_is_refused_beside_what_was_before() -> None:
    old, new = git(url=BAD["url"]), git(**BAD)

    denial = await refusal(asked=admission.request(new, old=old))

    assert [cause.field for cause in denial.causes] == ["spec.ref.semver"]


async def test_another_wrong_value_is_wrong_anew() -> None:
    old, new = git(sparseCheckout=["../a"]), git(sparseCheckout=["../b"])

    denial = await refusal(asked=admission.request(new, old=old))

    assert "../b" in str(denial)


async def test_an_entry_that_only_moves_is_not_wrong_anew() -> None:
    old, new = git(sparseCheckout=["../a"]), git(sparseCheckout=["b", "../a"])

    answer = await admission.admitted(plugin(), admission.request(new, old=old))

    assert "spec.sparseCheckout[1]" in answer.warnings[0]


@pytest.mark.parametrize(
    "change",
    [{"labels": {"a": "b"}}, {"finalizers": []}, {"annotations": {"x": "y"}}],
    ids=["label", "finalizer", "annotation"],
)
async def test_metadata_of_a_wrong_object_can_change_without_a_word(change: Json) -> None:
    old = git(**BAD)
    new = {**old, "metadata": {**old["metadata"], **change}}

    answer = await admission.admitted(plugin(), admission.request(new, old=old))

    assert answer.warnings == ()


async def test_an_object_on_its_way_out_is_left_alone() -> None:
    new = git(**BAD)
    new["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    answer = await admission.admitted(plugin(), admission.request(new, old=git()))

    assert answer.warnings == ()


async def test_a_status_and_a_deletion_are_none_of_its_business() -> None:
    status = admission.request(git(**BAD), old=git(), subresource="status")
    deletion = admission.request(old=git(**BAD))

    for asked in (status, deletion):
        assert (await admission.admitted(plugin(), asked)).warnings == ()


async def test_other_kinds_are_none_of_its_business() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "a"}}

    await admission.admitted(plugin(), admission.request(other))


async def test_a_circle_is_refused_with_the_way() -> None:
    seen = [kustomization("b", "c"), kustomization("c", "a")]

    denial = await refusal(*seen, asked=admission.request(kustomization("a", "x", "b")))

    (cause,) = denial.causes
    assert cause.field == "spec.dependsOn[1]"
    assert "it would wait for itself: apps/a, apps/b, apps/c, apps/a" in cause.message


async def test_a_circle_of_includes_is_refused() -> None:
    seen = git("two", include=[{"repository": {"name": "one"}}])

    denial = await refusal(
        seen, asked=admission.request(git("one", include=[{"repository": {"name": "two"}}]))
    )

    assert denial.causes[0].field == "spec.include[0].repository"


async def test_the_way_hides_what_lies_in_namespaces_that_were_not_named() -> None:
    seen = [
        kustomization("b", "hidden/c", namespace="other"),
        kustomization("c", "apps/a", namespace="hidden"),
    ]

    denial = await refusal(*seen, asked=admission.request(kustomization("a", "other/b")))

    assert "apps/a, other/b, …, apps/a" in str(denial)
    assert "hidden" not in str(denial)


async def test_a_circle_that_an_applier_may_take_apart_is_warned_of() -> None:
    asked = admission.request(kustomization("a", "b"), extra=APPLIER)

    answer = await admission.admitted(plugin(kustomization("b", "a")), asked)

    assert "wait for itself" in answer.warnings[0]


async def test_what_was_a_circle_before_can_change() -> None:
    old, new = kustomization("a", "b"), kustomization("a", "b", "x")

    answer = await admission.admitted(
        plugin(kustomization("b", "a"), old), admission.request(new, old=old)
    )

    assert "wait for itself" in answer.warnings[0]


async def test_the_circle_ends_with_the_object_that_closed_it() -> None:
    cluster = admission.FakeCluster([other := kustomization("b", "a")])
    validation = Validation.make(admission.services(cluster=cluster))
    cluster.remove(other)

    await admission.admitted(validation, admission.request(kustomization("a", "b")))


async def test_warnings_are_short_and_few() -> None:
    many = git(include=[{"repository": {"name": "x"}}], sparseCheckout=["../" + "ü" * 200] * 100)

    answer = await admission.admitted(
        plugin(), admission.request({**many, "spec": {**many["spec"], "suspend": True}}, old=many)
    )

    assert len(answer.warnings) == 10
    assert answer.warnings[-1].startswith("and ")
    assert all(len(line) <= 120 for line in answer.warnings)


async def test_a_denial_has_bounds_whatever_is_wrong() -> None:
    denial = await refusal(asked=admission.request(git(sparseCheckout=["../" + "x" * 9999] * 999)))

    assert len(denial.causes) == 16
    assert len(str(denial)) < 16 * 700
    assert "and 48 more" in str(denial)


async def test_three_megabytes_of_patterns_are_judged_in_bounds() -> None:
    identity = {"issuer": "(a*)*" * 20, "subject": "(x+x+)+y" * 20}
    verify = {"provider": "cosign", "matchOIDCIdentity": [identity] * 12_000}
    source = {
        "apiVersion": GIT,
        "kind": "OCIRepository",
        "metadata": {"name": "a", "namespace": "apps"},
        "spec": {**specs.RIGHT["OCIRepository"], "verify": verify},
    }
    assert len(msgspec.json.encode(source)) > 3 << 20

    denial = await refusal(asked=admission.request(source))

    assert "more than 256 entries" in str(denial)


def test_the_rules_name_the_stored_version_of_every_kind() -> None:
    assert [rule.resources for rule in RULES] == [(checks.kind.plural,) for checks in CHECKS]
    assert {(rule.groups[0], rule.versions) for rule in RULES} == {
        (checks.kind.group, (checks.kind.version,)) for checks in CHECKS
    }


def test_the_plugin_fails_closed_and_changes_nothing() -> None:
    assert dataclasses.replace(ROW, mutating=False, fail_open=False) == ROW


@pytest.mark.parametrize("kind", FLUX)
async def test_an_object_without_spec_is_let_in_with_a_warning(kind: str) -> None:
    (checks,) = [each for each in CHECKS if each.kind.kind == kind]
    metadata = {"name": "app", "namespace": "apps"}
    obj = {"apiVersion": checks.kind.api_version, "kind": kind, "metadata": metadata}

    answer = await plugin().review(admission.request(obj))

    assert answer.warnings == (
        "spec: it is missing, so nothing is done: write one, or delete the object",
    )


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("update {{ range .Changed.Changes }}", "unexpected EOF"),
        ("{{ env `PATH` }}", 'function "env" not defined'),
        ("x" * 70_000, "more than 65536 bytes"),
    ],
)
async def test_a_message_template_that_cannot_be_read_is_refused(
    engine_pool: WorkerPool, template: str, words: str
) -> None:
    obj = automation(template)
    checked = Validation.make(admission.services(pool=engine_pool))

    denial = await admission.denied(checked, admission.request(obj))

    assert isinstance(denial, DeniedError)
    assert [each.field for each in denial.causes] == ["spec.git.commit.messageTemplate"]
    assert words in str(denial)
    right = automation("{{ .AutomationObject }}: {{ len .Changed.Objects }}")
    await admission.admitted(checked, admission.request(right))


def automation(template: str) -> Json:
    commit = {"author": {"email": "bot@example.com"}, "messageTemplate": template}
    return {
        "apiVersion": "image.toolkit.fluxcd.io/v1",
        "kind": "ImageUpdateAutomation",
        "metadata": {"name": "app", "namespace": "apps"},
        "spec": {**specs.RIGHT["ImageUpdateAutomation"], "git": {"commit": commit}},
    }


def policy(annotation: str = "", **spec: Any) -> Json:
    metadata: Json = {"name": "app", "namespace": "apps"}
    if annotation:
        metadata["annotations"] = {"policy.penstock.dev/verify": annotation}
    body = {**specs.RIGHT["ImagePolicy"], **spec}
    version = "image.toolkit.fluxcd.io/v1"
    return {"apiVersion": version, "kind": "ImagePolicy", "metadata": metadata, "spec": body}


async def test_an_annotation_that_belongs_to_a_spec_is_judged_when_it_alone_changes() -> None:
    denial = await refusal(asked=admission.request(policy("a b"), old=policy("a")))

    (cause,) = denial.causes
    assert cause.field == "metadata.annotations[policy.penstock.dev/verify]"
    assert cause.message == (
        "'a b' is not a name of an ImageVerificationPolicy: write their names, separated by commas "
        "(verify-annotation)"
    )


async def test_a_wrong_annotation_of_before_is_only_warned_of() -> None:
    answer = await admission.admitted(
        plugin(), admission.request(policy("a b", suspend=True), old=policy("a b"))
    )

    assert [line.partition(":")[0] for line in answer.warnings] == [
        "metadata.annotations[policy.penstock.dev/verify]"
    ]
