"""The origin of an artifact: the facts for policies, recorded with the artifact. Pure.

A spec describes the next fetch. The current artifact may come from an earlier spec, and the source
may be suspended. So policies never judge an artifact by the current spec. The source controller
records with each artifact, under ``RECORD`` in its metadata, every field of the spec that
determined the content, and the required signer. It does the same for everything from which the
artifact was made (included repositories, the source of a chart). Admission lets no other user write
the record.

The first origin is the source itself. An artifact without a record was stored by an earlier version
or by a third party, and satisfies no policy about origins.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from crds.meta import ORIGINS, VERIFIED, Artifact
from toolkit.objects import Json, dig
from toolkit.policy import urls

RECORD: Final = ORIGINS
"""Artifact metadata: a JSON list of ``Origin``."""
FACT: Final = "verify.penstock.dev/"
"""Prefix of the names of artifact metadata with facts that a verification has proved."""
REMEDY: Final = (
    "it was stored without a record of where it came from; resume the source if it is suspended, "
    "and reconcile it"
)
_MOST_BYTES: Final = 16 << 10
_BUCKET: Final = ("endpoint", "bucketName")
_CHART: Final = "HelmChart"
_CHOOSING: Final = (
    *("chart", "version", "reconcileStrategy", "verify"),
    *("valuesFile", "valuesFiles", "ignoreMissingValuesFiles"),
)
"""The fields of the spec of a HelmChart that choose its content, besides ``sourceRef``."""
_UNSET: Final[tuple[object, ...]] = (None, "", False, [])


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One source of the content, as its spec was at the time of the fetch.

    ``url`` is canonical; it is empty if the kind has none or it cannot be compared. ``own_proxy``
    and ``own_trusted_root`` tell that the source named one. ``mode`` is the object in Git that must
    be signed. ``any_identity`` means that every identity could sign. ``asked`` identifies what the
    spec of a HelmChart asked for (``asked``). ``facts`` name the signer.
    """

    kind: str
    name: str
    url: str = ""
    own_proxy: bool = False
    mode: str = ""
    own_trusted_root: bool = False
    any_identity: bool = False
    asked: str = ""
    facts: dict[str, str] = {}


def own(obj: Json) -> Origin:
    """Return the origin of content that is fetched with the current spec of a source."""
    verify = dig(obj, "spec", "verify") or {}
    keyless = bool(verify) and verify.get("provider", "cosign") == "cosign"
    named = verify.get("secretRef") or verify.get("matchOIDCIdentity")
    git = obj.get("kind") == "GitRepository"
    return Origin(
        kind=str(obj.get("kind") or ""),
        name=str(dig(obj, "metadata", "name", default="")),
        url=_comparable(url_of(obj)),
        own_proxy=bool(dig(obj, "spec", "proxySecretRef")),
        mode=str(verify.get("mode") or "HEAD") if git and verify else "",
        own_trusted_root=bool(verify.get("trustedRootSecretRef")),
        any_identity=keyless and not git and not named,
        asked=asked(obj) if obj.get("kind") == _CHART else "",
    )


def asked(chart: Json) -> str:
    """Return the digest of the fields of a HelmChart that choose its content.

    The HelmChart must have all defaults. Two HelmCharts of one namespace with the same digest have
    the same content, and only a HelmRelease with this template may use it.
    """
    spec = dig(chart, "spec", default={})
    source = [dig(spec, "sourceRef", key) for key in ("kind", "name")]
    # An object without fields is not the same as none: ``verify`` has a default for each.
    chosen = [None if spec.get(name) in _UNSET else spec[name] for name in _CHOOSING]
    text = msgspec.json.encode([source, chosen], order="sorted")
    return hashlib.sha256(text).hexdigest()


def addressed(found: Sequence[Origin]) -> tuple[Origin, ...]:
    """Return the origins that have an address, which policies compare.

    A HelmChart has none: its content is that of the source in its ``sourceRef``, which is recorded
    after it. The result is empty if that source is not recorded.
    """
    return tuple(found[1:] if found and found[0].kind == _CHART else found)


def url_of(obj: Json) -> str:
    """Return the URL that policies compare: a bucket's is made of the fields that name it.

    Google's API has the bucket behind ``/storage/v1/b``. On another server this may be a path in
    another bucket, so it is part of the URL there.
    """
    insecure = bool(dig(obj, "spec", "insecure", default=False))
    if obj.get("kind") == "Bucket":
        endpoint, name = (str(dig(obj, "spec", key, default="")) for key in _BUCKET)
        scheme = "" if "://" in endpoint else "http://" if insecure else "https://"
        base = f"{scheme}{endpoint.rstrip('/')}"
        google = dig(obj, "spec", "provider") == "gcp" and not _is_google(base)
        return f"{base}{'/storage/v1/b' if google else ''}/{name}"
    url = str(dig(obj, "spec", "url", default=""))
    oci = insecure and url.startswith("oci://")
    return f"oci+http://{url.removeprefix('oci://')}" if oci else url


def of_part(kind: str, name: str, artifact: Artifact) -> tuple[Origin, ...]:
    """Return the origins that an artifact adds to artifacts that are made from it."""
    return read(artifact.metadata) or (Origin(kind=kind, name=name),)


def record(first: Origin, parts: Iterable[Origin]) -> str:
    """Return the value for ``RECORD``; too many parts are recorded as unknown."""
    found = [first]
    found.extend(part for part in parts if part not in found)
    text = msgspec.json.encode(found)
    if len(text) > _MOST_BYTES:
        text = msgspec.json.encode([first, Origin(kind=found[-1].kind, name="")])
    return text.decode()


def read(metadata: Mapping[str, str]) -> tuple[Origin, ...]:
    """Return the origins in the metadata of an artifact; empty if there are none.

    The signer of the artifact itself is not in the record, because its signature is verified again.
    """
    try:
        first, *parts = _DECODER.decode(metadata.get(RECORD, "[]"))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ()
    facts = {k: v for k, v in metadata.items() if k == VERIFIED or k.startswith(FACT)}
    return (msgspec.structs.replace(first, facts=facts), *parts)


def same(metadata: Mapping[str, str], text: str) -> bool:
    """Tell whether a record equals a new one, except for the signers of the parts."""
    return _places(read(metadata)) == _places(read({RECORD: text}))


def fetched_alike(metadata: Mapping[str, str], text: str) -> bool:
    """Tell whether the places of a record equal those of a new one.

    Another spec of a HelmChart may ask for the same chart from the same place.
    """
    before, after = (_places(read(each)) for each in (metadata, {RECORD: text}))
    return [_unasked(each) for each in before] == [_unasked(each) for each in after]


def without(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return metadata without the record."""
    return {name: value for name, value in metadata.items() if name != RECORD}


_DECODER: Final = msgspec.json.Decoder(list[Origin])


def _places(found: Iterable[Origin]) -> list[Origin]:
    return [msgspec.structs.replace(each, facts={}) for each in found]


def _unasked(origin: Origin) -> Origin:
    return msgspec.structs.replace(origin, asked="")


def _is_google(base: str) -> bool:
    host = base.partition("://")[2].partition("/")[0].partition(":")[0]
    return host.lower().endswith(".googleapis.com")


def _comparable(url: str) -> str:
    """Return the canonical URL without password; empty if there is none."""
    try:
        return urls.canonical(url)
    except urls.UnclearURLError:
        return ""
