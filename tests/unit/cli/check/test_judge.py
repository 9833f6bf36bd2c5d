"""Findings follow the gate's own rules, and grants allow no more than is needed."""

import json
from typing import Any

from cli.check import judge
from cli.check.judge import Finding, Judge
from cli.check.report import Report
from cli.check.subjects import Place, Subject, settled
from toolkit.objects import Json, ObjectKey
from toolkit.policy.references import References

KUSTOMIZE = "kustomize.toolkit.fluxcd.io/v1"


def kustomization(name: str, namespace: str, **spec: Any) -> Subject:
    body = {"interval": "10m", "prune": True, "sourceRef": source("infra"), **spec}
    metadata = {"name": name, "namespace": namespace}
    obj = {"apiVersion": KUSTOMIZE, "kind": "Kustomization", "metadata": metadata, "spec": body}
    return Subject(obj=obj, place=Place(file="apps.yaml", line=3, document=1))


def source(namespace: str, name: str = "charts") -> Json:
    return {"kind": "GitRepository", "name": name, "namespace": namespace}


def judged(*found: Subject, **flags: bool) -> list[Finding]:
    grants = judge.granted(found, ())
    policy = References(grants=lambda namespace: grants.get(namespace, ()), **flags)
    return Judge(policy=policy).judge(found)


def report(*found: Subject) -> Report:
    findings = judged(*found)
    return Report(checked=len(found), findings=findings, grants=judge.remedy(findings))


def grant(obj: Json) -> Subject:
    return Subject(obj=obj)


def test_equal_findings_are_one_row_with_a_count_and_three_names() -> None:
    names = ["a", "b", "c", "d", "e"]

    rows = report(*(kustomization(name, "media") for name in names)).render("").splitlines()

    assert len(rows) == 2
    assert rows[1].split()[:2] == ["refused", "5"]
    assert "Kustomization/media/a (apps.yaml:3), media/b, media/c, …   " in rows[1]


def test_programs_get_every_finding_with_its_place_and_grant() -> None:
    found = [kustomization(name, "media") for name in "abcde"]

    document = json.loads(report(*found).render("json"))

    assert [each["name"] for each in document["findings"]] == list("abcde")
    first = document["findings"][0]
    assert (first["file"], first["line"], first["document"]) == ("apps.yaml", 3, 1)
    assert (first["field"], first["rule"]) == ("spec.sourceRef", "reference-grant")
    assert '{group: "source.toolkit.fluxcd.io"' in first["grant"]
    assert document["refused"] == 5


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    text = report(kustomization("\x1b[2Jgone", "media")).render("")

    assert "\x1b" not in text
    assert "[2Jgone" in text


def test_names_are_told_once() -> None:
    twice = kustomization("a", "media", timeout="often")

    assert report(twice).render("name") == "kustomization.kustomize.toolkit.fluxcd.io/a\n"


def test_the_grants_that_are_told_allow_what_was_refused_and_nothing_else() -> None:
    media = kustomization("a", "media")
    shop = kustomization("b", "shop", sourceRef=source("infra", "other"))
    grants = report(media, shop).grants

    granted = [grant(each) for each in grants]
    swapped = kustomization("c", "media", sourceRef=source("infra", "other"))

    assert not judged(media, shop, *granted)
    assert [each.subject for each in judged(swapped, *granted)] == [swapped]


def test_holders_of_the_same_targets_share_one_grant() -> None:
    found = [kustomization("a", namespace) for namespace in ("media", "shop", "web")]

    (only,) = report(*found).grants

    assert [each["namespace"] for each in only["spec"]["from"]] == ["media", "shop", "web"]
    assert only["metadata"]["namespace"] == "infra"


def test_plain_dependencies_need_no_grant_and_expressions_do() -> None:
    own = {"kind": "GitRepository", "name": "own"}
    plain = [{"name": "db", "namespace": "infra"}]
    reading = [{"name": "db", "namespace": "infra", "readyExpr": "dep.spec.prune"}]

    waits = judged(kustomization("a", "media", sourceRef=own, dependsOn=plain))
    reads = judged(kustomization("a", "media", sourceRef=own, dependsOn=reading))

    assert not waits
    assert [each.field for each in reads] == ["spec.dependsOn[0]"]


def test_no_grant_is_offered_where_every_reference_is_blocked() -> None:
    findings = judged(kustomization("a", "media"), cross_namespace=False)

    assert [each.rule for each in findings] == ["cross-namespace-refs"]
    assert not judge.remedy(findings)


def test_what_lacks_a_grant_is_warned_of_where_the_installation_only_warns() -> None:
    findings = judged(kustomization("a", "media"), enforced=False)

    assert [(each.rule, each.refused) for each in findings] == [("reference-grant", False)]
    assert judge.remedy(findings)


def test_what_is_blocked_is_refused_even_where_the_installation_only_warns() -> None:
    findings = judged(kustomization("a", "media"), enforced=False, cross_namespace=False)

    assert [each.refused for each in findings] == [True]


def test_an_old_version_is_judged_as_the_stored_one() -> None:
    old = kustomization("a", "media")
    obj = {**old.obj, "apiVersion": "kustomize.toolkit.fluxcd.io/v1beta2"}

    assert [each.rule for each in judged(Subject(obj=obj))] == ["reference-grant"]


def test_a_misspelt_field_is_refused_with_the_one_that_was_meant() -> None:
    (finding,) = judged(kustomization("a", "infra", intervall="1m"))

    assert (finding.field, finding.rule) == ("spec.intervall", "unknown-field")
    assert finding.refused
    assert finding.remedy == "write 'interval', or remove it"


def test_a_field_of_an_old_version_is_known_in_all() -> None:
    assert not judged(kustomization("a", "infra", patchesStrategicMerge=[]))


def test_a_version_that_nobody_serves_is_refused() -> None:
    old = kustomization("a", "media")
    obj = {**old.obj, "apiVersion": "kustomize.toolkit.fluxcd.io/v7"}

    assert "version-unknown" in [each.rule for each in judged(Subject(obj=obj))]


def test_malformed_objects_are_findings_and_end_nothing() -> None:
    shapes: list[Any] = [[], "text", {"dependsOn": ["x"]}, {"sourceRef": []}, {"interval": {}}]
    found = [
        Subject(obj={**kustomization(str(number), "media").obj, "spec": spec})
        for number, spec in enumerate(shapes)
    ]

    assert {each.subject.ref.name for each in judged(*found) if each.refused} == set("01234")


def test_objects_that_would_wait_for_each_other_are_told() -> None:
    own = {"kind": "GitRepository", "name": "own"}
    found = [
        kustomization("a", "media", sourceRef=own, dependsOn=[{"name": "b"}]),
        kustomization("b", "media", sourceRef=own, dependsOn=[{"name": "a"}]),
    ]
    applied = [Subject(obj=each.obj, by=ObjectKey("flux-system", "apps")) for each in found]

    assert [each.refused for each in judged(*found)] == [True, True]
    assert [each.refused for each in judged(*applied)] == [False, False]


def test_variables_without_a_value_are_no_findings() -> None:
    unknown = kustomization("a", "media", interval="${PACE}", sourceRef=source("${NAMESPACE}"))

    assert not judged(Subject(obj=unknown.obj, partial=True))


def test_fields_that_are_null_count_as_not_written() -> None:
    written = kustomization("a", "media", sourceRef=source("media"), dependsOn=None)

    assert not judged(settled(written, "flux-system"))
