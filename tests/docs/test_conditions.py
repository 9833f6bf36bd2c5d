"""``docs/conditions.md`` tells the reasons that a condition of ours can have, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOLD = (ROOT / "docs" / "conditions.md").read_text()
PACKAGES = ("toolkit", "controllers")
FILES = [
    *(file for package in PACKAGES for file in (ROOT / package).rglob("*.py")),
    ROOT / "cli" / "installing" / "leaving.py",  # the one other place that writes conditions
]
NO_CONDITIONS = {
    # answers of plans and statuses of objects, not conditions of ours
    "NoPlan",
    "NotFound",
    "RevisionNotFound",
    # reasons of the API server
    "BadRequest",
    "Invalid",
    "Timeout",
    # of a review of the gate
    "InvalidImageName",
    # translated by the stage that had something built or read
    "EngineFailed",
    "OperationFailed",
    "WorkerTimeout",
    "WorkerDied",
    "WorkerStuck",
    "WorkerOutOfMemory",
    # the installation lacks the engine
    "EngineMissing",
    # of the root of the tree, which nobody raises
    "Failed",
}


def given() -> Iterator[tuple[str, str]]:
    """Return the reasons that errors and outcomes are given, and where."""
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case (
                    ast.keyword(arg="reason", value=ast.Constant(value=str(reason)))
                    | ast.AnnAssign(
                        target=ast.Name(id="default_reason"), value=ast.Constant(value=str(reason))
                    )
                    | ast.Assign(
                        targets=[ast.Name(id="default_reason")],
                        value=ast.Constant(value=str(reason)),
                    )
                ) if re.fullmatch(r"[A-Z][A-Za-z]+", reason):
                    yield reason, str(file.relative_to(ROOT))


def test_every_reason_is_told() -> None:
    found = dict(given())

    assert {
        reason: file
        for reason, file in found.items()
        if f"`{reason}`" not in TOLD and reason not in NO_CONDITIONS
    } == {}
    assert set(found) >= {"BuildFailed", "AuthenticationFailed", "AccessDenied"}


def rows() -> set[str]:
    """Return the reasons that the tables begin with."""
    cells = re.findall(r"^\|(?: [A-Z]\w+| )?\|? ?(`[A-Z][^|]*)\|", TOLD, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([A-Z][A-Za-z]+[a-z])`", cell)}


def test_a_reason_that_is_told_is_given() -> None:
    # As a whole constant of the code: a word in a message or a docstring gives no reason.
    constants = {
        node.value
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }

    assert rows() - constants == set()
    assert len(rows()) > 50, "the tables are not read"
