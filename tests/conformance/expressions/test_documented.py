"""Expressions as the documentation of Flux and Kubernetes has them give the results that it names.

Flux: the guides to health checks and dependencies, the specifications of Receivers and Providers.
Kubernetes: "Common Expression Language in Kubernetes". The last rows are what Flux's environment
(``fluxcd/pkg`` ``runtime/cel``) has beyond the language.
"""

from typing import Any

import pytest

from toolkit.expressions.evaluator import Case, Evaluator, Step
from toolkit.expressions.expression import Expression, Outcome


def _conditions(**types: str) -> dict[str, Any]:
    listed = [{"type": name, "status": status} for name, status in types.items()]
    return {"status": {"conditions": listed}, "metadata": {"name": "x", "generation": 2}}


TRUE, FALSE = Outcome(kind="bool", true=True), Outcome(kind="bool")
READY = "status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True')"
UNREADY = "status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'False')"
VERSIONS = "dep.metadata.labels['app/version'] == self.metadata.labels['app/version']"
GENERATION = (
    "dep.status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True') &&"
    " dep.metadata.generation == dep.status.observedGeneration"
)
V1, V2 = ({"metadata": {"labels": {"app/version": version}}} for version in ("v1", "v2"))
PUSH = {"res": {"metadata": {"name": "apps"}}, "req": {"tag": "ghcr.io/org/apps:1", "n": 3}}
EVENT = {
    "event": {"involvedObject": {"kind": "Kustomization", "name": "app"}, "metadata": {"env": "e"}},
    "provider": {"metadata": {"uid": "u-1"}},
}

ANY: tuple[str, ...] = ()
DEPENDS, HOOK = ("self", "dep"), ("res", "req")

ROWS = [
    (READY, ANY, _conditions(Ready="True"), TRUE),
    (READY, ANY, _conditions(Ready="False"), FALSE),
    (READY, ANY, _conditions(Synced="True"), TRUE),
    (UNREADY, ANY, _conditions(Ready="False"), TRUE),
    ("has(status.conditions) && " + READY, ANY, {"status": {}}, FALSE),
    (
        "status.phase == 'Bound' || status.phase == 'Released'",
        ANY,
        {"status": {"phase": "Bound"}},
        TRUE,
    ),
    (
        "metadata.generation != status.observedGeneration",
        ANY,
        {"metadata": {"generation": 2}, "status": {"observedGeneration": 1}},
        TRUE,
    ),
    (VERSIONS, DEPENDS, {"self": V1, "dep": V1}, TRUE),
    (VERSIONS, DEPENDS, {"self": V1, "dep": V2}, FALSE),
    (
        GENERATION,
        DEPENDS,
        {
            "self": {},
            "dep": _conditions(Ready="True")
            | {
                "status": {
                    "observedGeneration": 2,
                    "conditions": [{"type": "Ready", "status": "True"}],
                }
            },
        },
        TRUE,
    ),
    ("req.tag.contains(res.metadata.name)", HOOK, PUSH, TRUE),
    ("req.tag.split('/').last().value().split(':')[0] == res.metadata.name", HOOK, PUSH, TRUE),
    ("req.tag.split('/')[2].startsWith(res.metadata.name)", HOOK, PUSH, TRUE),
    (
        "(event.involvedObject.kind + '/' + event.involvedObject.name + '/' + event.metadata.env)",
        ("event", "provider"),
        EVENT,
        Outcome(kind="string", text="Kustomization/app/e"),
    ),
    (
        "self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas",
        ("self",),
        {"self": {"minReplicas": 1, "replicas": 2, "maxReplicas": 3}},
        TRUE,
    ),
    (
        "'Available' in self.stateCounts",
        ("self",),
        {"self": {"stateCounts": {"Available": 1}}},
        TRUE,
    ),
    (
        "(self.list1.size() == 0) != (self.list2.size() == 0)",
        ("self",),
        {"self": {"list1": [], "list2": [1]}},
        TRUE,
    ),
    ("self.set1.all(e, !(e in self.set2))", ("self",), {"self": {"set1": [1], "set2": [2]}}, TRUE),
    ("self.names.exists_one(n, n == 'a')", ("self",), {"self": {"names": ["a", "b"]}}, TRUE),
    ("duration(self.ttl).getSeconds() == 90", ("self",), {"self": {"ttl": "90s"}}, TRUE),
    (
        "timestamp(self.created) < timestamp('2026-01-01T00:00:00Z')",
        ("self",),
        {"self": {"created": "2025-01-01T00:00:00Z"}},
        TRUE,
    ),
    ("self.name.matches('^[a-z]{1,63}$')", ("self",), {"self": {"name": "web"}}, TRUE),
    ("self.?missing.orValue('none') == 'none'", ("self",), {"self": {}}, TRUE),
    (
        "self.name.lowerAscii().replace('w', 'v') == 'veb'",
        ("self",),
        {"self": {"name": "WEB"}},
        TRUE,
    ),
    ("sets.contains(self.all, ['a'])", ("self",), {"self": {"all": ["a", "b"]}}, TRUE),
    ("string(base64.decode(self.data)) == 'x'", ("self",), {"self": {"data": "eA=="}}, TRUE),
    (
        "'%s-%d'.format([self.name, self.n]) == 'web-2'",
        ("self",),
        {"self": {"name": "web", "n": 2}},
        TRUE,
    ),
]


@pytest.mark.parametrize(
    ("text", "variables", "given", "expected"), ROWS, ids=lambda value: str(value)[:40]
)
async def test_an_expression_has_the_documented_result(
    evaluates: Evaluator,
    text: str,
    variables: tuple[str, ...],
    given: dict[str, Any],
    expected: Outcome,
) -> None:
    expression = Expression(text=text, variables=variables, result="")
    case = Case(given=given, steps=[Step(expression=expression)])
    ((found,),) = await evaluates.evaluate("team", [case])

    assert found == expected
