"""Every promise of ``docs/security.md`` is enforced by a module and shown by a test."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("security.md", "sops.md", "image-verification.md", "hostile-signatures.md")
PAGES = [ROOT / "docs" / name for name in NAMES]
GATE = PAGES[0].read_text().partition("\n## The admission webhooks\n")[2].partition("\n## ")[0]
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


PROMISES_HEAD = "| Who | May not | Enforced by | Test |"
LONGEST = 620


def promises() -> list[list[str]]:
    """Return the rows of the tables of promises."""
    found, inside = [], False
    for line in PAGES[0].read_text().splitlines():
        inside = line == PROMISES_HEAD or (inside and line.startswith("|"))
        if inside and line.startswith("| ") and line != PROMISES_HEAD:
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def shown_by(cell: str) -> list[str]:
    """Return the tests in a cell; ``::name`` is one of the same file."""
    found: list[str] = []
    for each in re.findall(r"`([^`]+)`", cell):
        file = found[-1].partition("::")[0] if each.startswith("::") and found else ""
        found.append(file + each)
    return found


def test_every_promise_has_a_module_and_a_test() -> None:
    rows = promises()

    assert len(rows) > 150
    assert [row for row in rows if len(row) != 4 or not all(row)] == []
    named = [
        (row, re.findall(r"`([a-z]+/[\w/]+\.(?:py|go))`", row[2].partition(": ")[0]))
        for row in rows
    ]
    assert [row for row, modules in named if not modules] == []
    assert [m for _, modules in named for m in modules if not (ROOT / m).is_file()] == []
    tests = [(row, shown_by(row[3])) for row in rows]
    assert [row for row, found in tests if not found] == []
    assert [
        t for _, found in tests for t in found if not t.startswith("tests/") or not exists(t)
    ] == []


def test_every_promise_is_made_once_and_in_short() -> None:
    rows = promises()
    made = [(row[0], row[1]) for row in rows if not row[1].startswith("The same")]

    assert sorted({each for each in made if made.count(each) > 1}) == []
    assert [row for row in rows if len(" | ".join(row)) > LONGEST] == []


def test_a_promise_without_a_test_is_found() -> None:
    assert shown_by("`tests/a.py::test_b`, `::test_c`") == [
        "tests/a.py::test_b",
        "tests/a.py::test_c",
    ]
    assert not exists("tests/docs/test_security.py::test_that_nobody_wrote")


def rows() -> list[list[str]]:
    lines = [line for line in GATE.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_called_a_proof_exists(page: Path) -> None:
    proofs = re.findall(r"`(tests/[^`]+)`", page.read_text())

    assert proofs
    assert [proof for proof in proofs if not exists(proof)] == []


def test_proof_that_is_gone_is_found() -> None:
    here = f"tests/docs/{Path(__file__).name}"

    assert exists(here)
    assert exists(f"{here}::test_proof_that_is_gone_is_found")
    assert not exists(f"{here}::exists")
    assert not exists(f"{here}::test_proof_that_is")
    assert not exists("tests/docs/test_gone.py")


def exists(proof: str) -> bool:
    """Tell whether a file is there and has the test, which pytest collects by its name."""
    file, _, name = proof.partition("::")
    path = ROOT / file
    if not path.exists() or not name:
        return path.exists() and not name
    pattern = rf"^ *(async )?def {name}\("
    return name.startswith("test_") and bool(re.search(pattern, path.read_text(), re.MULTILINE))


@pytest.mark.parametrize("threat", THREATS)
def test_a_named_threat_has_a_line_that_stops_it_and_a_test(threat: str) -> None:
    found = [row for row in rows() if threat in row[1]]

    assert len(found) == 1
    (_, _, line, proof) = found[0]
    assert line
    assert "::test_" in proof


def test_every_line_that_stops_a_threat_names_a_file_that_exists() -> None:
    named = {row[1]: re.findall(r"`([a-z_]+/[a-z_/]+\.py)", row[2]) for row in rows()}

    assert named
    assert {threat for threat, files in named.items() if not files} == set()
    assert [file for files in named.values() for file in files if not (ROOT / file).is_file()] == []


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_every_verifier_has_a_test_of_every_hostile_case(verifier: str) -> None:
    section = SIGNATURES.partition(f"\n## {verifier}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| ([^|]+) \| (.+) \|$", section, re.MULTILINE)

    assert tuple(case for case, _ in lines[1:])[: len(CASES)] == CASES
    for case, seen in lines[1:]:
        assert "::test_" in seen or seen.startswith("n/a: "), case
