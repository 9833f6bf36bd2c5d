"""The trusted keys and identities of policies for images, from Secrets in Penstock's namespace.

A Secret is cached for a few seconds only, because a removed key must not go on admitting images.
The same holds for the settings of registries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from crds.policy_image import CosignVerifier, ImageVerificationPolicy, ImageVerifier
from toolkit.errors import StalledError
from toolkit.kept import Kept
from toolkit.kube.secrets import Secrets
from toolkit.policy import unreadable
from toolkit.remote.http.http import Endpoint
from toolkit.remote.tls import certified
from toolkit.verify.cosign import cosign
from toolkit.verify.notation import notation

SECONDS: Final = 10.0
_REASON: Final = "VerificationError"

Rules: TypeAlias = cosign.Policy | notation.Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """A policy with its rules, by the names of its verifiers.

    ``endpoint`` has the connection settings of its registries, without a login. ``login`` is the
    data of a Secret that may contain one.
    """

    verifiers: Mapping[str, Rules]
    endpoint: Endpoint
    login: Mapping[str, bytes] | None = field(default=None, repr=False)


class Trust:
    """Reads the Secrets of policies."""

    def __init__(self, secrets: Secrets, namespace: str) -> None:
        self._secrets = secrets
        self._namespace = namespace
        self._kept: Kept[Trusted] = Kept(seconds=SECONDS, capacity=1024)

    async def of(self, policy: ImageVerificationPolicy) -> Trusted:
        """Return the trusted keys and identities of a policy.

        Raises:
            StalledError: the policy cannot be read.
            VerificationError: the policy trusts no key or identity, or one of them is invalid.
            TransientError: a Secret cannot be read.
        """
        if why := unreadable.why(policy):
            raise StalledError(why)
        key = (policy.metadata.name, policy.metadata.uid, policy.metadata.generation)
        return await self._kept.get(key, lambda: self._read(policy))

    async def _read(self, policy: ImageVerificationPolicy) -> Trusted:
        verifiers = {each.name: await self._rules(each) for each in policy.spec.verifiers}
        endpoint, login = Endpoint(), None
        access = policy.spec.registry
        if access is not None:
            endpoint = replace(endpoint, plain_http=access.insecure)
            if access.cert_secret_ref:
                name = access.cert_secret_ref.name
                endpoint = certified(endpoint, await self._secret(name), name)
            if access.secret_ref:
                login = await self._secret(access.secret_ref.name)
        return Trusted(verifiers=verifiers, endpoint=endpoint, login=login)

    async def _rules(self, verifier: ImageVerifier) -> Rules:
        if verifier.notation is not None:
            return notation.Policy.from_secret(
                await self._secret(verifier.notation.secret_ref.name)
            )
        return await self._cosign(verifier.cosign or CosignVerifier())

    async def _cosign(self, verifier: CosignVerifier) -> cosign.Policy:
        if verifier.secret_ref:
            return cosign.Policy.from_secret(await self._secret(verifier.secret_ref.name))
        root = None
        if verifier.trusted_root_secret_ref:
            root = await self._secret(verifier.trusted_root_secret_ref.name)
        plain = [(each.issuer, each.subject) for each in verifier.identities]
        # Compile the pattern alone first: inserted into the group below, it must not end the group.
        cosign.Policy.keyless(plain, root)
        return cosign.Policy.keyless([(_whole(i), _whole(s)) for i, s in plain], root)

    async def _secret(self, name: str) -> Mapping[str, bytes]:
        return await self._secrets.read(self._namespace, name, reason=_REASON)


def _whole(pattern: str) -> str:
    """Return a pattern that matches only the whole identity: a longer one is another identity."""
    return rf"\A(?:{pattern})\z"
