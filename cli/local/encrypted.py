"""Encrypted Secrets in a local build and its diff: no key is read, and no value shown.

In the cluster most of them stay encrypted until admission (``controllers.kustomize``). The local
build handles files by the same rules. All but the values of a decrypted carrier is known: its keys,
and the digest of the document, which the live Secret has as an annotation. So a diff sends the
server a stand-in with the live values, which needs no decryption, and changes the answer as
admission would.

It does not find out whether this cluster decrypts at admission, which would need further
permissions: the live Secret shows it. A Secret that was applied in plaintext is compared as such.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from controllers.kustomize import carriers
from crds.kustomize import Kustomization
from toolkit.artifact import scan
from toolkit.decrypt import envelope, objects, sops
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json
from toolkit.render import kustomize
from toolkit.turns import ALONE

MASK: Final = "**SOPS**"
_DOTENV: Final = "sops_mac"
_ENCODED: Final = base64.b64encode(MASK.encode()).decode()


def admissible(obj: Kustomization) -> bool:
    """Tell whether a webhook may decrypt the Secrets of a Kustomization, with any key."""
    return obj.spec.decryption is not None and obj.spec.kube_config is None


async def build(
    pool: WorkerPool, plan: kustomize.Build, *, substitutes: bool, seconds: float
) -> tuple[Json, ...] | None:
    """Build with carriers for encrypted files; None if nothing stays encrypted until admission.

    Raises:
        BuildError: the build fails.
    """
    suspects = await _suspects(plan.mounts)
    if not suspects:
        return None
    first = await kustomize.build(
        pool, replace(plan, suspects=suspects), flow=ALONE, timeout=seconds
    )
    files = await asyncio.to_thread(_read, first.encrypted, plan.mounts)
    if not files:
        return first.objects
    carried = carriers.carry(files, substitutes=substitutes)
    raw = {path: content for path, content in files.items() if path not in carried}
    try:
        second = await kustomize.build(
            pool, replace(plan, files=carried), flow=ALONE, timeout=seconds
        )
    except kustomize.BuildError:
        return None  # the controller would build in clear
    found = carriers.sort(second.objects, raw, carried)
    return None if found is None or found.left == files.keys() else found.objects


def mask(obj: Json) -> Json:
    """Return an object without SOPS metadata and with masks for encrypted values.

    What is decrypted at admission, or asks to stay encrypted, is left as it is.
    """
    if carriers.opted(obj) or objects.opted_out(obj):
        return obj
    if "sops" not in obj:
        return _without_ciphertext(obj)
    clear = {key: value for key, value in obj.items() if key != "sops"}
    for part, value in (("data", _ENCODED), ("stringData", MASK)):
        if isinstance(clear.get(part), dict):
            clear[part] = dict.fromkeys(clear[part], value)
    return clear


def stand_in(obj: Json, live: Json | None = None) -> Json:
    """Return an object as it can be shown, or sent without the right to decrypt.

    The values of encrypted Secrets are the live ones, so that only keys differ, or masks.
    """
    known = (live or {}).get("data") or {}
    if carriers.opted(obj):
        metadata = obj["metadata"]
        labels = {k: v for k, v in metadata["labels"].items() if k != envelope.LABEL}
        clear = {**obj, "metadata": {**metadata, "labels": labels}, "data": _values(obj, known)}
        return {key: value for key, value in clear.items() if key != "stringData"}
    data = obj.get("data") or {}
    if obj.get("kind") != "Secret" or _ENCODED not in data.values():
        return obj
    return {**obj, "data": {key: known.get(key, value) for key, value in data.items()}}


def admitted(answer: Json, obj: Json, live: Json) -> Json:
    """Return the answer of the server to a stand-in, changed as admission would."""
    if not carriers.opted(obj) or not envelope.opted_in(live):
        return answer
    metadata = answer["metadata"]
    labels = {**(metadata.get("labels") or {}), envelope.LABEL: envelope.ENABLED}
    notes = {**(metadata.get("annotations") or {}), **envelope.sealed(obj).annotations}
    return {
        **answer,
        "metadata": {**metadata, "labels": labels, "annotations": notes},
        "data": _values(obj, live.get("data") or {}),
    }


def _without_ciphertext(obj: Json) -> Json:
    """Mask what secretGenerator makes of encrypted files."""
    names = {name for name, _ in objects.ciphertexts(obj)}
    if not names:
        return obj
    masked = {}
    for part, value in (("data", _ENCODED), ("stringData", MASK)):
        texts = obj.get(part) or {}
        if _DOTENV in texts:  # the metadata of an encrypted dotenv file are variables, too
            texts = {name: text for name, text in texts.items() if not name.startswith("sops_")}
        masked[part] = {name: value if name in names else text for name, text in texts.items()}
    return {**obj, **{part: texts for part, texts in masked.items() if part in obj}}


def _values(obj: Json, known: Mapping[str, str]) -> dict[str, str]:
    """Return the data of an encrypted Secret; values that need a key are the live ones."""
    names = envelope.sealed(obj).names
    strings = (obj.get("stringData") or {}).items()
    texts = {name: base64.b64encode(text.encode()).decode() for name, text in strings}
    plain = {**(obj.get("data") or {}), **texts}
    shown = {name: value for name, value in plain.items() if name != envelope.CARRIER}
    return {**shown, **{name: known.get(name, _ENCODED) for name in names}}


async def _suspects(mounts: Mapping[str, Path]) -> frozenset[str]:
    """Return the paths in the build tree that hold ciphertext."""
    found: set[str] = set()
    for mount, directory in mounts.items():
        prefix = f"{mount}/" if mount else ""
        # what Git keeps of other revisions is not in the artifact
        names = await scan.suspects(directory, omitted=".git")
        found.update(f"{prefix}{name}" for name in names)
    return frozenset(found)


def _read(paths: frozenset[str], mounts: Mapping[str, Path]) -> dict[str, bytes]:
    """Read the files of a build tree that are SOPS documents."""
    found = {}
    for path in paths:
        holders = [mount for mount in mounts if not mount or path.startswith(f"{mount}/")]
        mount = max(holders, key=len)
        content = (mounts[mount] / path[len(mount) :].lstrip("/")).read_bytes()
        if sops.is_encrypted(content):
            found[path] = content
    return found
