"""Sign an artifact with an identity of an identity provider, with Sigstore's signer.

The identity is the given token, or the one that the CI gives to its jobs. Fulcio issues a
certificate for it, and Rekor stores the signature. Both are Sigstore's public services, or those of
a private instance; then the trusted root of the instance verifies their answers.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cli import errors
from cli.artifacts import signing
from toolkit import untrusted
from toolkit.objects import Json

if TYPE_CHECKING:
    from sigstore.models import ClientTrustConfig
    from sigstore.oidc import IdentityToken


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A private Sigstore instance; all empty is the public one."""

    fulcio: str = ""
    rekor: str = ""
    rekor_version: int = 1
    timestamps: str = ""
    trusted_root: Path | None = None

    def __post_init__(self) -> None:
        """Require a complete instance, because only its own root can verify its services."""
        needed = (self.fulcio, self.rekor, self.trusted_root)
        if any((*needed, self.timestamps)) and not all(needed):
            raise errors.UsageError(
                "a private Sigstore needs --fulcio-url, --rekor-url and --trusted-root together"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The token that was given; ``None`` asks the CI at hand."""

    token: str | None = field(default=None, repr=False)


def sign(digest: str, identity: Identity, instance: Instance) -> bytes:
    """Return a bundle that signs the digest of an artifact; blocks.

    Raises:
        CommandError: there is no identity, or a service of Sigstore cannot be reached, or refuses.
    """
    # Sigstore's client takes a second of CPU to load, and other commands do not need it.
    from sigstore import dsse, oidc  # noqa: PLC0415
    from sigstore import errors as refused  # noqa: PLC0415
    from sigstore import sign as signer  # noqa: PLC0415
    from sigstore._internal import rekor  # noqa: PLC0415  # where its errors are
    from sigstore._internal.fulcio import client as fulcio  # noqa: PLC0415

    try:
        token = _token(identity)
        context = signer.SigningContext.from_trust_config(_trust(instance))
        with context.signer(token) as one:
            statement = dsse.Statement(signing.statement(digest))
            return one.sign_dsse(statement).to_json().encode()
    except (
        refused.Error,
        oidc.ExpiredIdentity,
        fulcio.ExpiredCertificate,
        fulcio.FulcioClientError,
        rekor.RekorClientError,
        OSError,  # errors of its HTTP client
    ) as exc:
        raise errors.CommandError(f"cannot sign the artifact: {_said(exc)}") from exc


def _token(identity: Identity) -> "IdentityToken":
    """Return the identity: the given token, or that of the CI."""
    from sigstore import oidc  # noqa: PLC0415  # as in `sign`

    if identity.token:
        return oidc.IdentityToken(identity.token)
    if os.environ.get("BUILDKITE"):
        # Its detector would run the agent, and no program is run here.
        raise errors.UsageError(
            '--sign: on Buildkite give the token, --identity-token "$(buildkite-agent oidc '
            'request-token --audience sigstore)"'
        )
    found = oidc.detect_credential()
    if not found:
        raise errors.UsageError(
            "--sign: no identity was found: run it in CI whose jobs have an identity (on GitHub "
            "with the permission `id-token: write`), or give --identity-token or --key"
        )
    return oidc.IdentityToken(found)


def _trust(instance: Instance) -> "ClientTrustConfig":
    """Return which services sign, and which of their answers count."""
    from sigstore.models import ClientTrustConfig  # noqa: PLC0415  # as in `sign`

    if instance.trusted_root is None:
        return ClientTrustConfig.production()
    try:
        root = untrusted.load_json(
            instance.trusted_root.read_bytes(), dict[str, object], size=_MAX_ROOT
        )
    except (OSError, untrusted.UntrustedError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise errors.UsageError(
            f"--trusted-root: cannot read {instance.trusted_root}: {why}"
        ) from exc
    config = {
        "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
        "trustedRoot": root,
        "signingConfig": {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": [_service(instance.fulcio, 1)],
            "rekorTlogUrls": [_service(instance.rekor, instance.rekor_version)],
            "rekorTlogConfig": {"selector": "ANY"},
            "tsaUrls": [_service(instance.timestamps, 1)] if instance.timestamps else [],
            "tsaConfig": {"selector": "ANY"},
        },
    }
    try:
        return ClientTrustConfig.from_json(json.dumps(config))
    except (ValueError, TypeError, KeyError) as exc:
        raise errors.UsageError(
            f"--trusted-root: {instance.trusted_root} is not a trusted_root.json"
        ) from exc


_MAX_ROOT: Final = 1 << 20


def _service(url: str, version: int) -> Json:
    """Return an entry of a signing config (protobuf-specs, sigstore_trustroot.proto)."""
    return {
        "url": url,
        "majorApiVersion": version,
        "validFor": {"start": "2020-01-01T00:00:00Z"},
        "operator": "private",
    }


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
