"""An OIDC issuer that signs tokens as a cluster does, and the check that relying parties make."""

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from toolkit.remote.cloud.identity import Identity

Json = dict[str, Any]


class RefusedError(Exception):
    """A relying party does not believe it."""


@dataclass
class Issuer:
    """Signs tokens of ServiceAccounts, and remembers for whom."""

    url: str = "https://issuer.example"
    key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    given: list[tuple[str, ...]] = field(default_factory=list)

    def jwks(self) -> Json:
        """Return the public key as a JSON Web Key Set (RFC 7517)."""
        numbers = self.key.public_key().public_numbers()
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one"}
        return {"keys": [key | {"n": _number(numbers.n), "e": _number(numbers.e)}]}

    def sign(
        self, namespace: str, name: str, *audiences: str, seconds: int = 600, uid: str = "u1"
    ) -> str:
        """Return a token as the API server makes them."""
        self.given.append(audiences)
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": f"system:serviceaccount:{namespace}:{name}",
            "aud": list(audiences),
            "iat": now,
            "exp": now + seconds,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        }
        parts = ({"alg": "RS256", "kid": "one"}, claims)
        text = b".".join(_encode(json.dumps(part).encode()) for part in parts)
        signature = self.key.sign(text, padding.PKCS1v15(), hashes.SHA256())
        return (text + b"." + _encode(signature)).decode()

    def identity(
        self,
        name: str = "app",
        *,
        namespace: str = "team",
        uid: str = "u1",
        annotations: Mapping[str, str] | None = None,
    ) -> Identity:
        """Return an identity whose tokens this issuer signs."""

        async def token(*audiences: str) -> str:
            return self.sign(namespace, name, *audiences)

        return Identity(
            namespace=namespace, name=name, uid=uid, annotations=annotations or {}, token=token
        )


def verify(token: str, *, jwks: Json, issuer: str, audience: str) -> Json:
    """Return the claims of a token that was signed by a key of the set, for this audience.

    Raises:
        RefusedError: it was not, or is over.
    """
    try:
        head, payload, signature = token.split(".")
        header, claims = json.loads(_decode(head)), json.loads(_decode(payload))
        key = next(row for row in jwks["keys"] if row["kid"] == header["kid"])
    except (ValueError, KeyError, StopIteration) as exc:
        raise RefusedError(f"no token of {issuer}") from exc
    if header["alg"] != key["alg"]:
        raise RefusedError(f"signed with {header['alg']}")
    try:
        _check(key, f"{head}.{payload}".encode(), _decode(signature))
    except InvalidSignature as exc:
        raise RefusedError("the signature is wrong") from exc
    now = time.time()
    if claims["iss"] != issuer:
        raise RefusedError(f"issued by {claims['iss']}")
    if audience not in claims["aud"]:
        raise RefusedError(f"for {claims['aud']} and not for {audience}")
    if not claims["iat"] - 60 <= now < claims["exp"]:
        raise RefusedError("it is over")
    return dict(claims)


def _check(key: Json, signed: bytes, signature: bytes) -> None:
    if key["alg"] == "RS256":
        rsa_key = rsa.RSAPublicNumbers(e=_integer(key["e"]), n=_integer(key["n"])).public_key()
        rsa_key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
        return
    assert (key["alg"], key["crv"]) == ("ES256", "P-256")
    point = ec.EllipticCurvePublicNumbers(_integer(key["x"]), _integer(key["y"]), ec.SECP256R1())
    half = len(signature) // 2
    r, s = (int.from_bytes(part, "big") for part in (signature[:half], signature[half:]))
    point.public_key().verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _number(value: int) -> str:
    return _encode(value.to_bytes((value.bit_length() + 7) // 8, "big")).decode()


def _integer(text: str) -> int:
    return int.from_bytes(_decode(text), "big")
