"""Questions where nobody can answer."""

import io
import sys
from pathlib import Path

import pytest

import cli
from cli import asking, errors


def test_without_a_terminal_the_flag_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))

    with pytest.raises(errors.UsageError, match=r"nothing was removed: .* use --silent"):
        asking.require("Remove it?", otherwise="nothing was removed")


def test_every_question_is_asked_here() -> None:
    root = Path(str(cli.__file__)).parent

    asked = {
        file.relative_to(root).as_posix()
        for file in root.rglob("*.py")
        if "click.confirm(" in file.read_text()
    }

    assert asked == {"asking.py"}
