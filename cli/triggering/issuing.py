"""The identity token of a CI job.

GitHub and Forgejo give a job with the permission (`id-token: write`) the address of an endpoint and
a token for it; the endpoint returns an identity token for the requested audience.
"""

import os
from dataclasses import dataclass, field
from typing import Final

from cli import errors
from cli.triggering import proof

PROVIDERS: Final = ("github", "forgejo")
AUDIENCE: Final = "notification-controller"
"""The default audience of a Receiver (``generic-oidc`` in docs/receivers.md)."""
VARIABLE: Final = "FLUX_TRIGGER_RECEIVER_OIDC_TOKEN"
URL: Final = "ACTIONS_ID_TOKEN_REQUEST_URL"
TOKEN: Final = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105 - the name of a variable
_SECONDS: Final = 30.0
_LARGEST: Final = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The options: a token, or its issuer and the audience."""

    token: str = field(default="", repr=False)
    provider: str = ""
    audience: str = ""

    def __post_init__(self) -> None:
        """Refuse options that exclude each other."""
        if self.provider and self.token:
            raise errors.UsageError("--oidc-provider and --oidc-token exclude each other")
        if self.audience and not self.provider:
            raise errors.UsageError("--oidc-audience needs --oidc-provider")

    def require_fitting(self, kind: str) -> None:
        """Require that a Receiver of this type accepts the options.

        Raises:
            UsageError: its senders use other proofs.
        """
        if self.provider and kind != proof.SECRETLESS:
            raise errors.UsageError(
                f"--oidc-provider is for Receivers of the type {proof.SECRETLESS}, not {kind}"
            )
        if self.token and kind not in proof.ISSUED:
            raise errors.UsageError(
                f"--oidc-token is for Receivers of the types {' and '.join(proof.ISSUED)}, "
                f"not {kind}"
            )


async def token(identity: Identity, kind: str) -> str:
    """Return the token for a Receiver of a type; empty if there is none, or none is needed.

    Raises:
        CommandError: the endpoint of the CI cannot be reached, or returns no token.
    """
    identity.require_fitting(kind)
    if kind not in proof.ISSUED:
        return ""
    if identity.provider:
        return await _fetched(identity.audience or AUDIENCE)
    return identity.token or os.environ.get(VARIABLE, "")


async def _fetched(audience: str) -> str:
    import yarl  # noqa: PLC0415 - the HTTP client, which help does not need

    from toolkit import untrusted  # noqa: PLC0415
    from toolkit.remote.endpoint import Endpoint  # noqa: PLC0415
    from toolkit.remote.errors import HttpError  # noqa: PLC0415
    from toolkit.remote.http.http import Http, read  # noqa: PLC0415

    address, bearer = os.environ.get(URL, ""), os.environ.get(TOKEN, "")
    if not (address and bearer):
        raise errors.UsageError(
            f"--oidc-provider: {URL} and {TOKEN} are not set: run it in a job that has the "
            "permission `id-token: write`"
        )
    try:
        asked = str(yarl.URL(address).update_query(audience=audience))
        endpoint = Endpoint(bearer_token=bearer, plain_http=True)
        async with (
            Http() as http,
            http.request("GET", asked, endpoint=endpoint, timeout=_SECONDS) as response,
        ):
            content = await read(response, limit=_LARGEST)
        found = untrusted.load_json(content, dict[str, object], size=_LARGEST).get("value")
    except (HttpError, ValueError) as exc:
        raise errors.FailedError(f"--oidc-provider: cannot get an identity token: {exc}") from exc
    if not (isinstance(found, str) and found):
        raise errors.FailedError("--oidc-provider: the answer of the CI holds no identity token")
    return found
