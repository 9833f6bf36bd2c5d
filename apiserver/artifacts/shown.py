"""Convert an artifact to the object that ``kubectl get -o yaml`` shows. Pure.

Users of the artifact are named within its namespace; in other namespaces they are only counted, so
that a shared source does not disclose names of one tenant to another.
"""

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from apiserver.artifacts.held import Held
from apiserver.artifacts.observed import Consumer
from crds import EXTERNAL_ARTIFACT
from crds.meta import VERIFIED
from toolkit.objects import Json

GROUP: Final = "gitops.penstock.dev"
API_VERSION: Final = f"{GROUP}/v1alpha1"
KIND: Final = "Artifact"

SOURCE_KIND: Final = f"{GROUP}/source-kind"
SOURCE_NAME: Final = f"{GROUP}/source-name"
CURRENT: Final = f"{GROUP}/current"

NAMED: Final = 100
"""Limit of named users of an artifact."""


def shown(artifact: Held, consumers: Iterable[Consumer]) -> Json:
    """Return the object of an artifact; ``consumers`` are those of its source."""
    owner = artifact.owner
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": artifact.name,
            "namespace": owner.namespace,
            "uid": str(uuid.uuid5(_UIDS, f"{artifact.source_uid} {artifact.digest}")),
            "creationTimestamp": artifact.stored or None,
            "labels": _labels(artifact),
        },
        "spec": {
            "sourceRef": {
                "apiVersion": artifact.api_version,
                "kind": owner.kind,
                "name": owner.name,
            },
            **({"revision": artifact.revision} if artifact.revision else {}),
            "digest": artifact.digest,
            "size": artifact.size,
            "file": artifact.file,
            "mediaType": media_type(artifact.file),
        },
        "status": {
            "current": artifact.current,
            **({"otherRevisions": list(artifact.others)} if artifact.others else {}),
            **({"expiresAt": artifact.expires} if artifact.expires else {}),
            **_verification(artifact),
            "stored": {
                **({"backend": artifact.backend} if artifact.backend else {}),
                "path": artifact.path,
                "url": artifact.url,
            },
            **_used(artifact, consumers),
        },
    }


def media_type(file: str) -> str:
    """Return the media type of a file, by its name (as ``toolkit.artifact.server`` sends it)."""
    for suffix, found in _TYPES:
        if file.endswith(suffix):
            return found
    return "application/octet-stream"


_UIDS: Final = uuid.UUID("6f3f2f0e-6c0b-5a51-9d7e-2f6f2a8d5c11")
_TYPES: Final = (
    (".gz", "application/gzip"),
    (".tgz", "application/gzip"),
    (".yaml", "application/yaml"),
    (".json", "application/json"),
)
_FACT: Final = "verify.penstock.dev/"
_LONGEST_LABEL: Final = 63


def _labels(artifact: Held) -> dict[str, str]:
    labels = {
        SOURCE_KIND: artifact.owner.kind,
        SOURCE_NAME: artifact.owner.name,
        CURRENT: "true" if artifact.current else "false",
    }
    return {name: value for name, value in labels.items() if len(value) <= _LONGEST_LABEL}


def _verification(artifact: Held) -> Json:
    """Return the result of verifying signatures.

    For an ExternalArtifact it is empty, because third parties write its status.
    """
    if artifact.owner.kind == EXTERNAL_ARTIFACT.kind or VERIFIED not in artifact.metadata:
        return {}
    facts = {
        name.removeprefix(_FACT): value
        for name, value in artifact.metadata.items()
        if name.startswith(_FACT)
    }
    return {
        "verification": {
            "method": facts.pop("method", ""),
            "message": artifact.metadata[VERIFIED],
            "signers": _signers(facts),
            **({"facts": facts} if facts else {}),
        }
    }


def _signers(facts: dict[str, str]) -> list[dict[str, str]]:
    """Return the signers in facts: those of a tag and its commit are separated by a comma."""
    issuer = facts.pop("issuer", "")
    identity, fingerprint = facts.pop("identity", ""), facts.pop("fingerprint", "")
    fingerprints = fingerprint.split(", ")
    identities = identity.split(", ") if len(fingerprints) > 1 else [identity]
    if len(identities) != len(fingerprints):
        # A person with two keys, or a name with a comma: return the text as one signer.
        identities, fingerprints = [identity], [fingerprint]
    return [
        {name: value for name, value in signer.items() if value}
        for signer in (
            {"identity": who, "issuer": issuer, "fingerprint": key}
            for who, key in zip(identities, fingerprints, strict=True)
        )
        if any(signer.values())
    ]


def _used(artifact: Held, consumers: Iterable[Consumer]) -> Json:
    users: list[dict[str, str]] = []
    elsewhere = 0
    for consumer in consumers:
        state = _state(artifact, consumer)
        if not state:
            continue
        if consumer.namespace != artifact.owner.namespace:
            elsewhere += 1
            continue
        users.append(
            {
                "apiVersion": consumer.api_version,
                "kind": consumer.kind,
                "name": consumer.name,
                "state": state,
            }
        )
    users.sort(key=lambda user: (user["kind"], user["name"]))
    named, more = users[:NAMED], len(users[NAMED:])
    return {
        **({"usedBy": named} if named else {}),
        **({"usedMore": more} if more else {}),
        **({"usedElsewhere": elsewhere} if elsewhere else {}),
    }


def _state(artifact: Held, consumer: Consumer) -> str:
    owner = artifact.owner
    source = (owner.kind, owner.namespace, owner.name)
    uses = [use for use in consumer.uses if use.source == source]
    if any(_is(artifact, use.applied) for use in uses):
        return "Applied"
    if any(_is(artifact, use.attempted) for use in uses):
        return "Attempted"
    return ""


def _is(artifact: Held, told: str) -> bool:
    """Tell whether an artifact is the one of a revision, or of the digest that ends one."""
    return bool(told) and any(
        told in {revision, revision.rpartition("@")[2]} for revision in artifact.revisions
    )


def signer(verification: Mapping[str, object]) -> str:
    """Return the signers of an artifact in a word each, for a column."""
    signers = verification.get("signers")
    if not isinstance(signers, list) or not signers:
        return str(verification.get("method") or "yes")
    return ", ".join(each.get("identity") or each.get("fingerprint", "") for each in signers)


def moment(timestamp: str) -> float:
    """Return a time of the API in seconds since the epoch; 0 if it is not valid."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return 0.0
