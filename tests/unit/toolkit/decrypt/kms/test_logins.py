"""Entries of a Secret for key services: what is understood, and what nobody may lend."""

import pytest

from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.kms import logins


def test_other_entries_are_not_ours() -> None:
    found = logins.from_secret({"a.agekey": b"x", "0.sops.aws-kms": b"y", "sops.vault-ca": b"z"})

    assert found == logins.Logins()


def test_nothing_secret_shows() -> None:
    data = {
        "sops.aws-kms": b"aws_access_key_id: AKIA\naws_secret_access_key: word-1",
        "sops.azure-kv": b"{tenantId: t, clientId: c, clientSecret: word-2}",
        "sops.vault-token": b"word-3\n",
    }

    found = logins.from_secret(data)

    assert found.vault is not None
    assert found.vault.token == "word-3"
    assert "word-" not in repr(found)


@pytest.mark.parametrize(
    ("entry", "value", "complaint"),
    [
        ("sops.aws-kms", b"", "it is not a mapping"),
        ("sops.aws-kms", b"aws_access_key_id: AKIA", "it takes 'aws_access_key_id' and"),
        ("sops.aws-kms", b"a: " + b"[" * 30_000, "16 levels"),
        ("sops.aws-kms", b"a: &a [x, x]\nb: [*a, *a]\n", "aliases are not supported"),
        ("sops.aws-kms", b"{", "it is not YAML"),
        ("sops.aws-kms", b"[1]", "it is not a mapping"),
        ("sops.aws-kms", b"\xff\xfe{", "it is not text"),
        ("sops.aws-kms", b"a: " + b"x" * (65 << 10), "it is larger than 65536 bytes"),
        ("sops.azure-kv", b"{clientId: c}", "a Secret cannot use a managed identity"),
        ("sops.azure-kv", b"{tenantId: ../x, clientId: c, clientSecret: s}", "it takes 'tenantId'"),
        ("sops.azure-kv", b"{tenantId: t, clientId: c}", "it takes 'tenantId'"),
        (
            "sops.azure-kv",
            b"{tenantId: t, clientId: c, clientSecret: s, authorityHost: 'https://attacker/'}",
            "'authorityHost' is not one of",
        ),
        (
            "sops.azure-kv",
            b"{tenantId: t, clientId: c, clientCertificate: x, clientCertificatePassword: y}",
            "takes no password here",
        ),
        ("sops.gcp-kms", b"{type: external_account}", "not external_account"),
        ("sops.gcp-kms", b"{type: authorized_user}", "not authorized_user"),
        ("sops.gcp-kms", b"{type: 'x y'}", "not another one"),
        ("sops.gcp-kms", b"{type: service_account}", "it lacks 'client_email'"),
        ("sops.vault-token", b" \n", "it is empty"),
        ("sops.vault-token", b"a\r\nX-Other: b", "no header can carry"),
    ],
)
def test_what_is_of_no_use_is_named_without_its_value(
    entry: str, value: bytes, complaint: str
) -> None:
    with pytest.raises(DecryptionError, match=f"cannot use the entry '{entry}'.*{complaint}"):
        logins.from_secret({entry: value})


@pytest.mark.parametrize("address", ["vault.example:8200", "https://a/b", "https://u:p@a", "x\ty:"])
def test_an_address_in_the_list_must_be_a_servers(address: str) -> None:
    with pytest.raises(DecryptionError, match="not the address of a server"):
        logins.from_secret({"sops.vault-token": b"t", "sops.vault-address": address.encode()})


@pytest.mark.parametrize("listed", [16, 17])
def test_a_token_is_for_sixteen_addresses_at_most(listed: int) -> None:
    addresses = "\n".join(f"https://vault-{n}.example" for n in range(listed)).encode()
    entries = {"sops.vault-token": b"t", "sops.vault-address": addresses}

    if listed == 16:
        found = logins.from_secret(entries).vault
        assert found is not None
        assert len(found.addresses) == listed
    else:
        with pytest.raises(DecryptionError, match="it has more than 16 addresses"):
            logins.from_secret(entries)


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("https://Vault.Example", "https://vault.example:443"),
        ("https://vault.example:443/", "https://vault.example:443"),
        ("http://127.0.0.1:8200", "http://127.0.0.1:8200"),
        ("http://[::1]:8200", "http://[::1]:8200"),
        ("https://vault.example:99999", ""),
        ("https://vault.example?x", ""),
        ("https://vault.example#x", ""),
        ("https://vault.exämple", ""),
        ("https://a b", ""),
        ("file:///etc/passwd", ""),
        ("", ""),
    ],
)
def test_an_address_is_spelt_in_one_way_only(address: str, origin: str) -> None:
    assert logins.origin(address) == origin
