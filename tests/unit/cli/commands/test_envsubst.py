"""``penstock envsubst`` replaces variables as post builds do."""

import io
import sys

import pytest

from cli.__main__ import main
from toolkit.native import build


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    build.build()
    monkeypatch.setenv("cluster_region", "eu")
    monkeypatch.delenv("absent", raising=False)


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_text_is_replaced_and_else_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, "region: '${cluster_region}'\n# $${x} ${absent:=1}\nplain: $cost\n")

    assert main(["envsubst"]) == 0

    assert capsys.readouterr().out == "region: 'eu'\n# ${x} 1\nplain: $cost\n"


def test_strict_names_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, "a\nb: ${absent}\n")

    assert main(["envsubst", "--strict"]) == 1

    said = capsys.readouterr()
    assert "line 2" in said.err
    assert said.out == ""
