"""Signatures by the Notary Project's own SDK: run this module for the golden cases.

The golden cases are envelopes with what must become of them, for authorities whose certificates
last for a century. Made anew they are other bytes and the same cases.
"""

import base64
import json
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.fakes import notary
from tests.fakes.revocation import Authority, Certified
from tests.tools import programs
from toolkit.remote.oci.oci import Descriptor

GOLDEN: Final = Path(__file__).parents[1] / "conformance" / "notation" / "golden"
KEYS: Final = ("P-256", "P-384", "P-521", "2048", "3072", "4096")
FORMATS: Final = {"jws": notary.JWS, "cose": notary.COSE}
ARTIFACT: Final = b"the golden artifact"

_SECONDS: Final = 60
_CENTURY: Final = (timedelta(days=-400), timedelta(days=36500))
_LAST_YEAR: Final = (timedelta(days=-300), timedelta(days=-200))
_MEANWHILE: Final = timedelta(days=-250)
_AUTHORITY_SCHEME: Final = "notary.x509.signingAuthority"


def sign(
    by: Certified,
    artifact: Descriptor,
    media_type: str,
    *,
    at: datetime | None = None,
    timestamp: "Mapping[str, str] | None" = None,
    expiry: timedelta | None = None,
    scheme: str = "notary.x509",
) -> bytes:
    """Return an envelope for a descriptor."""
    answer = _run(
        {
            **_signer(by),
            "mediaType": media_type,
            "artifact": notary.as_json(artifact),
            "signedAt": _time(at or datetime.now(UTC)),
            "timestamp": timestamp,
            "expirySeconds": int(expiry.total_seconds()) if expiry else 0,
            "scheme": scheme,
        }
    )
    return base64.b64decode(answer["envelope"])


def push(
    by: Certified,
    reference: str,
    media_type: str,
    *,
    timestamp: "Mapping[str, str] | None" = None,
) -> None:
    """Sign ``host/name@digest`` where it lies, in a registry without TLS."""
    job = {"mediaType": media_type, "reference": reference, "timestamp": timestamp}
    _run({**_signer(by), **job})


def clock(
    authority: Authority, *, at: datetime | None = None, responder: bool = False
) -> dict[str, str]:
    """Return a timestamp authority that attests this time, or the present."""
    certified = authority.certify(
        "Clock",
        use=ExtendedKeyUsageOID.TIME_STAMPING,
        lasts=_CENTURY,
        key="2048",
        responder=responder,
    )
    attested = {"at": _time(at)} if at else {}
    return {"key": certified.key_pem, "chain": certified.chain_pem, **attested}


def regenerate(directory: Path) -> None:
    """Write the golden cases."""
    authority = Authority("Golden", lasts=_CENTURY)
    clocks = Authority("Golden Clock", lasts=_CENTURY, key="2048")
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    (directory / "ca.crt").write_bytes(authority.pem)
    (directory / "tsa.clock.crt").write_bytes(clocks.pem)
    cases = {}
    for name, envelope, case in _cases(authority, clocks):
        (directory / name).write_bytes(envelope)
        cases[name] = case
    (directory / "cases.json").write_text(json.dumps(cases, indent=1) + "\n")


def _cases(authority: Authority, clocks: Authority) -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    """Return names, envelopes, and the policy with the step that fails under it (0: none)."""
    artifact = notary.Shelf().artifact(ARTIFACT)
    plain, timed = ["ca:golden"], ["ca:golden", "tsa:clock"]
    meanwhile = datetime.now(UTC) + _MEANWHILE
    for short, media_type in FORMATS.items():
        for key in KEYS:
            by = authority.certify(key=key, lasts=_CENTURY)
            yield f"{key}.{short}", sign(by, artifact, media_type), {"": [plain, 0]}
        late = authority.certify(lasts=_LAST_YEAR)
        attested = clock(clocks, at=meanwhile)
        envelope = sign(late, artifact, media_type, at=meanwhile, timestamp=attested)
        yield (
            f"timestamped.{short}",
            envelope,
            {
                "always": [timed, 0],
                "afterCertExpiry": [timed, 0],
                "": [plain, 7],
            },
        )
        attested = clock(clocks)
        envelope = sign(late, artifact, media_type, at=meanwhile, timestamp=attested)
        yield f"timestamped-late.{short}", envelope, {"always": [timed, 7]}
        attested = clock(Authority("Stranger", lasts=_CENTURY, key="2048"), at=meanwhile)
        envelope = sign(late, artifact, media_type, at=meanwhile, timestamp=attested)
        yield f"timestamped-by-stranger.{short}", envelope, {"always": [timed, 7]}
        envelope = sign(late, artifact, media_type, at=meanwhile)
        yield f"not-timestamped.{short}", envelope, {"always": [timed, 7], "": [plain, 7]}
        envelope = sign(late, artifact, media_type, at=meanwhile, scheme=_AUTHORITY_SCHEME)
        yield (
            f"signing-authority.{short}",
            envelope,
            {
                "": [["signingAuthority:golden"], 0],
                "always": [plain, 5],
            },
        )
        by = authority.certify(lasts=_CENTURY)
        envelope = sign(by, artifact, media_type, at=meanwhile, expiry=timedelta(days=1))
        yield f"expired.{short}", envelope, {"": [plain, 6]}
        envelope = sign(by, notary.Shelf().artifact(b"another"), media_type)
        yield f"another-artifact.{short}", envelope, {"": [plain, 9]}
        stranger = Authority("Golden", lasts=_CENTURY).certify(lasts=_CENTURY)
        yield f"stranger.{short}", sign(stranger, artifact, media_type), {"": [plain, 5]}


def _signer(by: Certified) -> dict[str, str]:
    return {"key": by.key_pem, "chain": by.chain_pem}


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _run(job: Mapping[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [programs.path("notation-sign")],
        input=json.dumps(job).encode(),
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    regenerate(GOLDEN)
