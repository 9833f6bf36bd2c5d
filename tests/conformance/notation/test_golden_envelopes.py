"""Envelopes that the Notary Project's SDK made are judged as its specification says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import notary
from tests.fakes.revocation import Revocations
from tests.tools import notationsign
from tests.tools.notationsign import FORMATS, GOLDEN
from toolkit.native.pool import WorkerPool
from toolkit.verify.notation import notation
from toolkit.verify.notation.notation import Policy
from toolkit.verify.signature import VerificationError


async def _failed_step(
    directory: Path, name: str, stores: list[str], timestamp: str, pool: WorkerPool
) -> int:
    """Return at which step an envelope is refused; 0 if it is verified."""
    shelf = notary.Shelf()
    artifact = shelf.artifact(notationsign.ARTIFACT)
    media_type = FORMATS[name.rpartition(".")[2]]
    shelf.sign(artifact, (directory / name).read_bytes(), media_type=media_type)
    policy = Policy(
        document=notary.document(stores=tuple(stores), timestamp=timestamp),
        certificates=_certificates(directory),
    )
    try:
        proof = await notation.verify(
            shelf.subject(artifact), policy, pool=pool, revocations=Revocations(), flow="team"
        )
    except VerificationError as exc:
        return exc.step
    assert not proof.tolerated
    return 0


def _certificates(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.crt")}


def _cases(directory: Path) -> Iterator[tuple[str, str, list[str], int]]:
    cases: dict[str, dict[str, Any]] = json.loads((directory / "cases.json").read_text())
    for name, policies in cases.items():
        for timestamp, (stores, step) in policies.items():
            yield name, timestamp, stores, step


@pytest.mark.parametrize(("name", "timestamp", "stores", "step"), list(_cases(GOLDEN)))
async def test_a_golden_envelope_ends_at_its_step(
    pool: WorkerPool, name: str, timestamp: str, stores: list[str], step: int
) -> None:
    assert await _failed_step(GOLDEN, name, stores, timestamp, pool) == step


@pytest.mark.usefixtures("notation_sign_program")
async def test_envelopes_made_now_end_at_the_same_steps(tmp_path: Path, pool: WorkerPool) -> None:
    notationsign.regenerate(tmp_path)

    steps = {
        (name, timestamp): await _failed_step(tmp_path, name, stores, timestamp, pool)
        for name, timestamp, stores, _ in _cases(tmp_path)
    }

    assert list(_cases(tmp_path)) == list(_cases(GOLDEN))
    assert steps == {(name, timestamp): step for name, timestamp, _, step in _cases(GOLDEN)}
