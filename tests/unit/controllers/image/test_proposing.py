"""The text of a pull request: what changes, who signed it, and nothing that others can format."""

from typing import Any

import msgspec

from controllers.image import proposing
from controllers.image.updating import Draft
from crds.image import ImagePolicy
from crds.image_automation import ImageUpdateAutomation
from toolkit.render.setters import Change, Changed

DIGEST = f"sha256:{'a' * 64}"


def automation() -> ImageUpdateAutomation:
    body = {
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {"sourceRef": {"name": "app"}, "interval": "1h"},
    }
    return msgspec.convert(body, ImageUpdateAutomation)


def policy(message: str, *, status: str = "True", tag: str = "1.1.0") -> ImagePolicy:
    condition = {
        "type": "ImageVerified",
        "status": status,
        "reason": "Succeeded",
        "message": message,
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    }
    body = {
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {"imageRepositoryRef": {"name": "app"}, "policy": {"alphabetical": {}}},
        "status": {
            "latestRef": {"name": "ghcr.io/org/web", "tag": tag, "digest": DIGEST},
            "conditions": [condition],
        },
    }
    return msgspec.convert(body, ImagePolicy)


def draft(old: str = "web:1.0.0", new: str = "web:1.1.0", **more: Any) -> Draft:
    change = Change(object={}, setter="team:app:tag", old=old, new=new)
    message = more.get("message", "Update\n")
    return Draft(files=(Changed(path="a.yaml", changes=[change]),), message=message)


SIGNED = f"1.1.0@{DIGEST} is signed by ann@example.com (f0), as ImageVerificationPolicy 'p' demands"


def test_the_signer_stands_beside_the_change() -> None:
    told = proposing.text(automation(), draft(), [policy(SIGNED)])

    assert "| `a.yaml` | `web:1.0.0` | `web:1.1.0` | `ann@example.com (f0)` |" in told.body


def test_what_was_said_of_another_image_is_not_told_of_this_one() -> None:
    for each in (policy(SIGNED, tag="1.2.0"), policy(SIGNED, status="Unknown"), policy("")):
        told = proposing.text(automation(), draft(), [each])

        assert "ann@example.com" not in told.body


def test_nothing_leaves_its_cell() -> None:
    hostile = "web:`1` | @everyone <img src=x>\n\n# Approved"
    told = proposing.text(automation(), draft(old=hostile), [])

    (row,) = [line for line in told.body.splitlines() if line.startswith("| `a.yaml`")]
    assert row.count("|") == 5
    assert "`web:'1' / @everyone <img src=x>  # Approved`" in row


def test_the_first_line_of_the_message_is_the_title_and_the_rest_stands_as_code() -> None:
    told = proposing.text(automation(), draft(message="Update\n\n# Big\n@everyone\n"), [])

    assert told.title == "Update"
    assert told.body.startswith("    # Big\n    @everyone\n\n| file |")


def test_a_long_list_is_cut() -> None:
    changes = [
        Change(object={}, setter="team:app", old=f"web:{number}", new="web:x")
        for number in range(150)
    ]
    files = (Changed(path="a.yaml", changes=changes),)

    told = proposing.text(automation(), Draft(files=files, message="x\n"), [])

    assert told.body.count("| `a.yaml`") == 100
    assert "and 50 more changes" in told.body
