"""Every test that ``docs/security.md`` calls a proof exists, and no named threat lacks one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("security.md", "sops.md", "image-verification.md", "hostile-signatures.md")
PAGES = [ROOT / "docs" / name for name in NAMES]
GATE = PAGES[0].read_text().partition("\n## The gate\n")[2].partition("\n## ")[0]
THREATS = (
    "replay of ciphertext into another namespace",
    "decryption oracle by dry-run",
    "plaintext in audit or logs",
    "forged provenance",
    "label or annotation that opts out",
    "subresource bypass",
    "ephemeral container bypass",
    "finalizer deadlock",
    "webhook down",
    "slow registry",
    "TOCTOU tag move",
    "ReDoS",
    "3 MiB object",
    "revoked grant",
    "old API version as bypass",
    "controller borrowed as deputy",
)
SIGNATURES = PAGES[-1].read_text()
VERIFIERS = ("OpenPGP", "SSH", "cosign", "Notation")
CASES = (
    "unsigned",
    "other key",
    "other identity",
    "expired",
    "copied from another artifact",
    "tag moved between resolve and pull",
    "truncated blob",
    "digest mismatch",
    "malformed attachment",
    "endless signatures",
    "10 MB manifest",
    "redirect with credentials",
    "attestation instead of a signature",
    "log entry of another artifact",
    "revoked",
    "demand lowered under a stored artifact",
)


def rows() -> list[list[str]]:
    lines = [line for line in GATE.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_called_a_proof_exists(page: Path) -> None:
    proofs = re.findall(r"`(tests/[^`]+)`", page.read_text())

    assert proofs
    for proof in proofs:
        file, _, name = proof.partition("::")
        assert (ROOT / file).exists(), proof
        if name:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), (
                proof
            )


@pytest.mark.parametrize("threat", THREATS)
def test_a_named_threat_has_a_line_that_stops_it_and_a_test(threat: str) -> None:
    found = [row for row in rows() if threat in row[1]]

    assert len(found) == 1
    (_, _, line, proof) = found[0]
    assert line
    assert "::test_" in proof


def test_every_file_that_stops_a_threat_exists() -> None:
    for row in rows():
        for file in re.findall(r"`([a-z]+/[a-z/]+\.py)`", row[2]):
            assert (ROOT / file).is_file(), row


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_every_verifier_has_a_test_of_every_hostile_case(verifier: str) -> None:
    section = SIGNATURES.partition(f"\n## {verifier}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| ([^|]+) \| (.+) \|$", section, re.MULTILINE)

    assert tuple(case for case, _ in lines[1:])[: len(CASES)] == CASES
    for case, seen in lines[1:]:
        assert "::test_" in seen or seen.startswith("n/a: "), case
