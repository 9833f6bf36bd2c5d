"""Who acts, and what the write claims."""

from toolkit.kube import impersonation


def test_a_service_account_has_its_user_name() -> None:
    assert impersonation.service_account("ns", "sa") == "system:serviceaccount:ns:sa"


def test_claims_are_prefixed_and_empty_ones_are_not_made() -> None:
    extra = impersonation.provenance(
        applier="Kustomization/a/b",
        source="GitRepository/a/s",
        revision="r",
        digest="",
        verified="",
    )

    assert extra == {
        "provenance.penstock.dev/applier": "Kustomization/a/b",
        "provenance.penstock.dev/source": "GitRepository/a/s",
        "provenance.penstock.dev/revision": "r",
    }
