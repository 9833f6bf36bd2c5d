"""The wire: what is read strictly, what is said within bounds."""

import base64
from typing import Any

import msgspec
import pytest

from tests.fakes import admission
from tests.fakes.admission import POD, REVIEW
from toolkit import errors
from toolkit.objects import GroupVersionKind, Json
from webhooks import review
from webhooks.plugin import Answer, Cause, DeniedError


def decoded(body: bytes) -> Json:
    found: Json = msgspec.json.decode(body)["response"]
    return found


def test_every_part_of_a_request_is_read() -> None:
    request = review.decode(msgspec.json.encode(REVIEW), deadline=5.0)

    assert (request.uid, request.operation, request.dry_run) == ("u-1", "UPDATE", True)
    assert request.gvk == GroupVersionKind("", "v1", "Pod")
    assert request.asked == GroupVersionKind("", "v0", "Pod")
    assert (request.resource, request.subresource) == ("pods", "ephemeralcontainers")
    assert str(request.ref) == "Pod/apps/web"
    assert (request.user.name, request.user.groups) == ("alice", ("dev",))
    assert dict(request.user.extra) == {"k": ("v",)}
    assert request.object == request.old == POD
    assert request.deadline == 5.0
    assert "web:1" not in repr(request)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
        msgspec.json.encode({**REVIEW, "apiVersion": "admission.k8s.io/v1beta1"}),
        msgspec.json.encode({**REVIEW, "request": {**REVIEW["request"], "operation": "EAT"}}),
        msgspec.json.encode({**REVIEW, "request": {**REVIEW["request"], "object": "pod"}}),
        b'{"apiVersion":"admission.k8s.io/v1","request":' + b'{"a":' * 100_000,
    ],
)
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(review.MalformedError):
        review.decode(body, deadline=0.0)


async def test_a_changed_object_becomes_a_patch() -> None:
    changed = {**POD, "metadata": {**POD["metadata"], "labels": {"a": "b"}}}

    answer = decoded(review.allowed(admission.request(POD), Answer(object=changed), mutating=True))

    assert answer["patchType"] == "JSONPatch"
    patch = msgspec.json.decode(base64.b64decode(answer["patch"]))
    assert patch == [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]


@pytest.mark.parametrize(("obj", "mutating"), [(POD, True), (None, True), ({}, False)])
async def test_no_patch_without_a_change_or_the_right_to(
    obj: Json | None, *, mutating: bool
) -> None:
    request = admission.request(POD)

    answer = decoded(review.allowed(request, Answer(object=obj), mutating=mutating))

    assert answer == {"uid": request.uid, "allowed": True}


async def test_warnings_and_notes_are_bounded() -> None:
    said = Answer(
        warnings=("a\nb", "a b", "", "x" * 999, *(f"w{n}" for n in range(99))),
        audit={f"k{n}": "v" * 9999 for n in range(99)},
    )

    answer = decoded(review.allowed(admission.request(POD), said, mutating=False))

    assert answer["warnings"][:2] == ["a b", "x" * 255 + "…"]
    assert len(answer["warnings"]) == 16
    assert len(answer["auditAnnotations"]) == 32
    assert max(map(len, answer["auditAnnotations"].values())) == 1024


async def test_a_denial_carries_code_reason_and_causes() -> None:
    cause = Cause(reason="FieldValueInvalid", field="spec.url", message="no URL")
    denial = DeniedError("not valid", code=422, causes=(cause,) * 99, audit={"why": "url"})

    answer = decoded(review.denied(admission.request(POD), denial))

    status = answer["status"]
    assert (answer["uid"], answer["allowed"]) == (admission.request(POD).uid, False)
    assert status["message"] == "not valid"
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "spec.url"
    assert len(status["details"]["causes"]) == 32
    assert answer["auditAnnotations"] == {"why": "url"}


DEPLOYMENT: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "apps"},
}
UNNAMED: Json = {**DEPLOYMENT, "metadata": {"generateName": "web-", "namespace": "apps"}}
WEB = {"group": "apps", "kind": "Deployment", "name": "web"}


@pytest.mark.parametrize(
    ("obj", "old", "code", "details"),
    [
        (DEPLOYMENT, None, 403, WEB),
        (DEPLOYMENT, DEPLOYMENT, 503, WEB),
        (None, DEPLOYMENT, 403, WEB),
        (UNNAMED, None, 403, {"group": "apps", "kind": "Deployment"}),
        (POD, None, 409, {"kind": "Pod", "name": "web"}),
        # kubectl would print nothing but the name.
        (DEPLOYMENT, None, 422, None),
    ],
)
async def test_a_denial_names_the_object(
    obj: Json | None, old: Json | None, code: int, details: Json | None
) -> None:
    request = admission.request(obj, old=old)

    answer = decoded(review.denied(request, DeniedError("no", code=code)))

    assert answer["status"].get("details") == details


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (errors.AccessDeniedError("x"), 403, "Forbidden"),
        (errors.StalledError("x"), 422, "Invalid"),
        (errors.WaitingError("x"), 503, "ServiceUnavailable"),
        (errors.TransientError("x"), 503, "ServiceUnavailable"),
        (errors.PenstockError("x"), 403, "Forbidden"),
        (DeniedError("x", code=409), 409, "Conflict"),
        (DeniedError("x", code=403, reason="Odd"), 403, "Odd"),
    ],
)
def test_errors_of_the_toolkit_are_denials(error: Any, code: int, reason: str) -> None:
    denial = review.understood(error)

    assert (denial.code, denial.reason, str(denial)) == (code, reason, "x")
