"""Tokens of issuers on loopback, with TLS: who is believed, and what is asked of them."""

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping
from typing import Any

import jwt
import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa

from controllers.notification.receiving import oidc
from controllers.notification.receiving.oidc import AUDIENCE, Tokens
from controllers.notification.receiving.request import Hook, RefusedError
from controllers.notification.receiving.senders import SENDERS
from crds.notification_receiver import OIDCProvider, Receiver
from tests.fakes.evaluating import closing
from tests.fakes.issuer import Issuer
from tests.fakes.serving import serving
from toolkit.expressions import evaluator
from toolkit.expressions.evaluator import Evaluator
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.http.http import Http

EMAIL = "hooks@project.iam.gserviceaccount.com"
PUSH = json.dumps({"message": {"data": "e30=", "messageId": "1"}}).encode()


class Place:
    """An issuer with a server."""

    def __init__(self) -> None:
        self.issuer = Issuer()
        self.reads = 0
        self.calls_itself = ""
        self.discovery = b""
        self.demands = "vars.who == 'a'"

    async def answer(self, request: web.Request) -> web.Response:
        self.reads += 1
        if request.path.endswith("openid-configuration"):
            if self.discovery:
                return web.Response(body=self.discovery)
            named = self.calls_itself or self.issuer.url
            return web.json_response({"issuer": named, "jwks_uri": f"{self.issuer.url}/keys"})
        return web.json_response(self.issuer.jwks())

    def token(self, **claims: Any) -> str:
        """Return a token of Google's shape."""
        known = jwt.decode(
            self.issuer.sign("a", "b", AUDIENCE), options={"verify_signature": False}
        )
        return jwt.encode(
            {**known, **claims}, self.issuer.key, algorithm="RS256", headers={"kid": "one"}
        )


def hook(kind: str, token: str, spec: Mapping[str, Any], **secret: bytes) -> Hook:
    receiver = msgspec.convert(
        {
            "metadata": {"name": "r", "namespace": "apps"},
            "spec": {"type": kind, "resources": [], **spec},
        },
        Receiver,
    )
    headers = {"Authorization": f"Bearer {token}"}
    return Hook(receiver=receiver, headers=headers, body=PUSH, secret=secret)


async def running(
    place: Place, tls: ssl.SSLContext, ca: bytes, *tokens: Any, kind: str, **secret: bytes
) -> None:
    """Check hooks with tokens, each made by a function once the issuer has its address."""
    evaluates = evaluator.start()
    async with serving(place.answer, tls=tls) as port, Http() as http, closing(evaluates):
        place.issuer.url = f"https://localhost:{port}"
        checks = Tokens(
            http, lambda _: Endpoint(ca=ca), evaluates, google_keys=f"https://localhost:{port}/keys"
        )
        for make in tokens:
            rules = [{"expression": place.demands, "message": "only a may call"}]
            who = [{"name": "who", "expression": "claims['kubernetes.io'].namespace"}]
            issuer = {"issuerURL": place.issuer.url, "validations": rules, "variables": who}
            spec = {"oidcProviders": [issuer]} if kind == "generic-oidc" else {}
            await SENDERS[kind](hook(kind, make(), spec, **secret), checks)


def test_a_token_of_the_issuer_is_believed_and_keys_are_read_once(
    server_tls: ssl.SSLContext, ca: bytes
) -> None:
    place = Place()

    asyncio.run(running(place, server_tls, ca, place.token, place.token, kind="generic-oidc"))

    assert place.reads == 2


OTHERS = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def forged(place: Place) -> str:
    return jwt.encode(
        jwt.decode(place.token(), options={"verify_signature": False}),
        OTHERS,
        algorithm="RS256",
        headers={"kid": "one"},
    )


def another_key(place: Place) -> str:
    claims = jwt.decode(place.token(), options={"verify_signature": False})
    return jwt.encode(claims, OTHERS, algorithm="RS256", headers={"kid": "two"})


def unsigned(place: Place) -> str:
    claims = jwt.decode(place.token(), options={"verify_signature": False})
    return jwt.encode(claims, "", algorithm="none")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (forged, "not accepted"),
        (unsigned, "key that its issuer does not have|not accepted"),
        (another_key, "a key that its issuer does not have"),
        (lambda _: "", "holds no token"),
        (lambda _: "a.b.c", "cannot be read"),
        (lambda place: place.token(aud="another"), "InvalidAudienceError"),
        (lambda place: place.token(exp=1), "ExpiredSignatureError"),
        (lambda place: place.token(nbf=4e9), "ImmatureSignatureError"),
        (lambda place: place.token(iss="https://evil.example"), "does not name"),
        (lambda place: place.token(**{"kubernetes.io": {"namespace": "b"}}), "only a may call"),
        (lambda place: place.token(**{"kubernetes.io": {}}), "only a may call"),
    ],
)
def test_another_token_is_refused(
    server_tls: ssl.SSLContext, ca: bytes, make: Any, why: str
) -> None:
    place = Place()

    with pytest.raises(RefusedError, match=why):
        asyncio.run(running(place, server_tls, ca, lambda: make(place), kind="generic-oidc"))


def test_an_issuer_that_calls_itself_otherwise_is_not_believed(
    server_tls: ssl.SSLContext, ca: bytes
) -> None:
    place = Place()
    place.calls_itself = "https://other.example"

    with pytest.raises(RefusedError, match="calls itself otherwise"):
        asyncio.run(running(place, server_tls, ca, place.token, kind="generic-oidc"))


def test_an_expression_that_cannot_be_used_lets_nobody_pass(
    server_tls: ssl.SSLContext, ca: bytes
) -> None:
    place = Place()
    place.demands = "vars.who ="

    with pytest.raises(RefusedError, match="the claims cannot be judged"):
        asyncio.run(running(place, server_tls, ca, place.token, kind="generic-oidc"))


@pytest.mark.parametrize("body", [b"", b"[]", b'{"keys": []}', b'{"keys": [{"kty": "x"}]}'])
def test_keys_that_nobody_can_use_are_none(body: bytes) -> None:
    with pytest.raises(RefusedError, match="no keys that can be used") as caught:
        oidc.keys(body)

    assert caught.value.status == 503


def test_an_issuer_that_tells_nothing_is_not_believed(
    server_tls: ssl.SSLContext, ca: bytes
) -> None:
    place = Place()
    place.discovery = b"<html>"

    with pytest.raises(RefusedError, match="tells nothing that can be read"):
        asyncio.run(running(place, server_tls, ca, place.token, kind="generic-oidc"))


GOOGLE = {"iss": "https://accounts.google.com", "aud": "hooks", "email_verified": True}


def test_a_push_of_the_named_account_is_believed(server_tls: ssl.SSLContext, ca: bytes) -> None:
    place = Place()

    asyncio.run(
        running(
            place,
            server_tls,
            ca,
            lambda: place.token(**GOOGLE, email=EMAIL),
            kind="gcr",
            email=EMAIL.encode(),
            audience=b"hooks",
        )
    )


@pytest.mark.parametrize(
    ("claims", "secret", "why"),
    [
        ({"email": "evil@example.com"}, {}, "another account"),
        ({"email": EMAIL, "email_verified": False}, {}, "another account"),
        ({"email": EMAIL, "aud": "other"}, {}, "InvalidAudienceError"),
        ({"email": EMAIL, "iss": "https://evil.example"}, {}, "InvalidIssuerError"),
        ({"email": EMAIL}, {"email": b""}, "lacks 'email' or 'audience'"),
        ({"email": EMAIL}, {"audience": b""}, "lacks 'email' or 'audience'"),
    ],
)
def test_a_push_of_another_account_is_refused(
    server_tls: ssl.SSLContext,
    ca: bytes,
    claims: dict[str, Any],
    secret: dict[str, bytes],
    why: str,
) -> None:
    place = Place()
    held = {"email": EMAIL.encode(), "audience": b"hooks", **secret}

    with pytest.raises(RefusedError, match=why):
        asyncio.run(
            running(
                place,
                server_tls,
                ca,
                lambda: place.token(**{**GOOGLE, **claims}),
                kind="gcr",
                **held,
            )
        )


COSTLY = {
    "validations": [{"expression": "claims.l.all(x,claims.l.all(y,y!=''))", "message": "m"}] * 250,
    "variables": [{"name": "v", "expression": "['" + "y" * 400 + "']" + ".map(x,x+x+x+x+x)" * 10}],
}


@pytest.mark.parametrize("field", COSTLY)
async def test_rules_that_cost_too_much_let_nobody_pass(evaluates: Evaluator, field: str) -> None:
    """1,770 validations held up the controller; a variable of 577 characters took 491 MiB."""
    rules = {"validations": [{"expression": "true", "message": "m"}], field: COSTLY[field]}
    provider = msgspec.convert({"issuerURL": "https://x", **rules}, OIDCProvider)
    claims = {"l": [f"c{number}" for number in range(310)]}

    with pytest.raises(RefusedError, match="too expensive on these values") as caught:
        await oidc.require_claims(evaluates, "team", provider, claims)

    assert caught.value.status == 503


async def test_no_more_rules_are_evaluated_than_a_receiver_may_have(evaluates: Evaluator) -> None:
    rules = [{"expression": "claims.l.all(x,claims.l.all(y,y!=''))", "message": "m"}] * 1770
    provider = msgspec.convert({"issuerURL": "https://x", "validations": rules}, OIDCProvider)

    with pytest.raises(RefusedError, match="use fewer"):
        await oidc.require_claims(evaluates, "team", provider, {})


def test_private_key_of_an_issuer_is_not_computed_with() -> None:
    number = base64.urlsafe_b64encode(b"\xff" * 1000).decode()
    private = {"kty": "RSA", "kid": "a", "n": number, "e": "AQAB", "d": number}

    found = oidc.keys(json.dumps({"keys": [private] * 30}).encode())

    assert isinstance(found["a"].key, rsa.RSAPublicKey)


def test_key_of_unusual_length_is_left_out() -> None:
    usual = {"kty": "RSA", "kid": "a", "n": "_" * 683, "e": "AQAB"}
    long = {"kty": "RSA", "kid": "b", "n": "_" * 100_001, "e": "AQAB"}

    assert oidc.keys(json.dumps({"keys": [long, usual]}).encode()).keys() == {"a"}


def test_key_that_is_no_public_key_is_left_out() -> None:
    shared = {"kty": "oct", "kid": "a", "k": "AA"}
    public = {"kty": "RSA", "kid": "b", "n": "_" * 683, "e": "AQAB"}

    assert oidc.keys(json.dumps({"keys": [shared, public]}).encode()).keys() == {"b"}


@pytest.mark.parametrize("key", [{"kty": "RSA"}, {"kty": "EC", "crv": "P-256"}, {"kty": "OKP"}])
def test_key_without_its_numbers_is_refused(key: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match="no keys that can be used"):
        oidc.keys(json.dumps({"keys": [key]}).encode())
