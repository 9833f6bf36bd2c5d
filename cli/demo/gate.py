"""The gate at the API server, chapter by chapter: refusals, and decryption.

A policy refuses an object before it is stored, for all users. Each chapter shows the refusal, the
remedy, and that the remedy works.
"""

import base64
import json
import secrets
from typing import Final

from apiserver.cells import shorten
from cli import errors, status
from cli.demo import narration, sample, tenant
from cli.demo.stage import Stage
from toolkit.decrypt import envelope
from toolkit.objects import Json, dig

_APPLIER: Final = "kustomize-controller"


async def demand_signatures(stage: Stage) -> None:
    """Refuse a source that verifies nothing where a SourcePolicy demands signatures."""
    narration.chapter("7. A tenant's source must be signed")
    demands = tenant.signatures_demanded(stage.url, stage.author)
    await stage.kubectl.apply(*demands)
    unsigned = tenant.source(stage.url, verified=False)
    await stage.kubectl.decides(unsigned, admitted=False)
    with narration.step("kubectl apply of a GitRepository without spec.verify, refused") as clock:
        message = await stage.kubectl.refused(unsigned)
        clock.stop()
        _require("spec.verify" in message, "the refusal does not name spec.verify")
        clock.note = narration.quote(message)
    with narration.step("kubectl apply with spec.verify, until the commit is verified") as clock:
        commit = await stage.repository.commit(
            "Write a menu", write=tenant.menu(), author=stage.author
        )
        clock.start()
        verified = tenant.source(stage.url, verified=True)
        await stage.kubectl.apply(verified)
        obj = await stage.until(
            tenant.SIGNED, lambda obj: _at(obj, commit), "the signed commit was not taken"
        )
        clock.stop()
        message = str(status.condition(obj, "SourceVerified").get("message"))
        _require(stage.author.fingerprint in message, "the source does not say who signed")
        clock.note = narration.quote(message)


async def grant_references(stage: Stage) -> None:
    """Refuse a reference to another namespace until a ReferenceGrant there allows it."""
    narration.chapter("8. Another team's source is theirs to grant")
    await stage.push()
    app = tenant.borrower()
    with narration.step("kubectl apply of a Kustomization of team-a/signed, refused") as clock:
        message = await stage.kubectl.refused(app)
        clock.stop()
        _require("ReferenceGrant" in message, "the refusal does not name the remedy")
        clock.note = narration.quote(message)
    with narration.step("kubectl apply of a ReferenceGrant, then the same, until Ready") as clock:
        await stage.kubectl.apply(tenant.grant())
        await stage.kubectl.decides(app, admitted=True)
        await stage.kubectl.apply(app)
        obj = await stage.until(
            tenant.MENU, lambda obj: obj is not None and status.settled(obj), "not Ready"
        )
        clock.stop()
        clock.note = shorten(status.readiness(obj).message)
    narration.tell(await stage.kubectl("get", "configmap/menu", "-n", tenant.MENU.namespace))


async def decrypt(stage: Stage) -> None:
    """Decrypt a Secret where it enters the cluster, not in the controller that applies it."""
    narration.chapter("9. A Secret stays encrypted until it is in the cluster")
    vault, password = tenant.Vault(), secrets.token_hex(8)
    files = vault.sealed(password)
    with narration.step("penstock seal, git push, spec.decryption, until Ready") as clock:
        commit = await stage.repository.commit("Set a password", write=files, author=stage.author)
        clock.start()
        await stage.kubectl.apply(vault.keys())
        await stage.kubectl(
            *("patch", "kustomization", sample.KUSTOMIZATION.name, "-n", sample.NAMESPACE),
            *("--type=merge", "--patch", tenant.DECRYPTED),
        )
        await stage.push()
        await stage.applied(commit)
    with narration.step("kubectl get secret database: sent encrypted, stored plain") as clock:
        secret = json.loads(await _database(stage, "json", "--show-managed-fields"))
        stored = base64.b64decode(await _database(stage, "jsonpath={.data.password}")).decode()
        clock.stop()
        sent = _sent(secret)
        _require(password not in str(files), "the file in Git is not encrypted")
        _require(sent == [envelope.CARRIER], f"{_APPLIER} sent {', '.join(sent)}")
        _require(stored == password, "the stored value is not the one that was encrypted")
        clock.note = (
            f"in Git:  {_line(files, 'password')}\n"
            f"sent:    data[{sent[0]}], all that {_APPLIER} had: ciphertext\n"
            f"stored:  {stored}, by -o jsonpath={{.data.password}} | base64 -d"
        )


async def _database(stage: Stage, form: str, *more: str) -> str:
    ref = tenant.DATABASE
    return await stage.kubectl("get", "secret", ref.name, "-n", ref.namespace, "-o", form, *more)


def _sent(secret: Json) -> list[str]:
    """Return the data keys that the controller applied, as the API server noted them down."""
    entries = dig(secret, "metadata", "managedFields", default=[])
    fields = (entry["fieldsV1"] for entry in entries if entry["manager"] == _APPLIER)
    data = (dig(each, "f:data", default={}) for each in fields)
    return sorted(key.removeprefix("f:") for each in data for key in each if key != ".")


def _line(files: dict[str, str], field: str) -> str:
    lines = (line.strip() for text in files.values() for line in text.splitlines())
    found = next(line for line in lines if line.startswith(f"{field}:"))
    return f"{found[:48]}…"


def _at(obj: Json | None, commit: str) -> bool:
    return obj is not None and status.settled(obj) and status.revision(obj).endswith(commit)


def _require(held: bool, otherwise: str) -> None:  # noqa: FBT001 - it reads as a sentence
    if not held:
        raise errors.FailedError(otherwise)
