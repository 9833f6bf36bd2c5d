"""A policy on sources whose required signature proves nothing is refused when written."""

from typing import Any

import pytest

from tests.contract.crds.conftest import Objects

WHY = "identities prove nothing where a source brings its own authorities"
CERTIFICATE = f"SHA256:{'ab' * 32}"


def policy(**notation: Any) -> dict[str, Any]:
    entry = {
        "kind": "OCIRepository",
        "urls": ["oci://registry.example/**"],
        "verify": {"notation": notation},
    }
    return {
        "apiVersion": "policy.penstock.dev/v1alpha1",
        "kind": "SourcePolicy",
        "metadata": {"name": "bad"},
        "spec": {"sources": [entry]},
    }


@pytest.mark.parametrize("more", [{}, {"certificates": []}, {"ownAuthorities": "Deny"}])
def test_names_in_certificates_alone_are_refused(drafts: Objects, more: dict[str, Any]) -> None:
    assert WHY in drafts.refused(policy(identities=["CN=release"], **more))


@pytest.mark.parametrize(
    "notation",
    [
        {},
        {"identities": []},
        {"certificates": [CERTIFICATE]},
        {"identities": ["CN=release"], "certificates": [CERTIFICATE]},
        {"identities": ["CN=release"], "ownAuthorities": "Allow"},
    ],
)
def test_the_rule_refuses_no_more_than_it_says(drafts: Objects, notation: dict[str, Any]) -> None:
    assert drafts.accepted(policy(**notation))["kind"] == "SourcePolicy"
