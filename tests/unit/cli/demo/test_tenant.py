"""What the demo applies means what it tells, by the functions that decide about it."""

import msgspec
import pytest
import yaml

from cli.demo import tenant
from cli.demo.signing import Author
from crds.policy_referencegrant import ReferenceGrant
from crds.policy_source import SourcePolicy
from toolkit.decrypt import sops
from toolkit.decrypt.keyring import KeyRing
from toolkit.errors import AccessDeniedError
from toolkit.objects import Json, ref_of
from toolkit.policy import sources
from toolkit.policy.references import References

URL = "http://127.0.0.1:4321/shop.git"


@pytest.fixture
def policy() -> SourcePolicy:
    _, found, _ = tenant.signatures_demanded(URL, Author(name="ada@example.com"))
    return msgspec.convert(found, SourcePolicy)


def test_policy_refuses_only_the_source_that_verifies_nothing(policy: SourcePolicy) -> None:
    unsigned = sources.judge(tenant.source(URL, verified=False), [policy])
    signed = sources.judge(tenant.source(URL, verified=True), [policy])

    assert [each.field for each in unsigned] == ["spec.verify"]
    assert signed == ()


def test_policy_knows_the_repository(policy: SourcePolicy) -> None:
    elsewhere = tenant.source("http://127.0.0.1:4322/shop.git", verified=True)

    assert [each.field for each in sources.judge(elsewhere, [policy])] == ["spec.url"]


@pytest.mark.parametrize("granted", [False, True])
def test_reference_is_allowed_by_the_grant_alone(*, granted: bool) -> None:
    grants = (msgspec.convert(tenant.grant(), ReferenceGrant),) if granted else ()
    references = References(grants=lambda _: grants)

    def require() -> None:
        references.require(ref_of(tenant.borrower()), tenant.SIGNED)

    if granted:
        require()
    else:
        with pytest.raises(AccessDeniedError, match="no ReferenceGrant"):
            require()


def test_only_the_vaults_key_opens_what_it_sealed() -> None:
    vault = tenant.Vault()
    (document,) = vault.sealed("hunter2").values()
    keys: Json = vault.keys()["stringData"]
    ring = KeyRing.from_secret({name: key.encode() for name, key in keys.items()})

    opened = yaml.safe_load(sops.decrypt(document.encode(), sops.Format.YAML, ring))

    assert "hunter2" not in document
    assert opened["stringData"] == {"password": "hunter2"}
