"""``migrate --path`` beside Flux's command: the same files come out."""

import asyncio
import os
from pathlib import Path

import pytest

from cli.__main__ import main
from tests.tools import command

MANIFESTS = {
    "sources.yaml": (
        "apiVersion: source.toolkit.fluxcd.io/v1beta2 # of 2022\nkind: GitRepository\n"
        "metadata:\n  name: a\n---\napiVersion: v1\nkind: ConfigMap\n---\n"
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: Bucket\n"
    ),
    "deep/release.yml": (
        "apiVersion: helm.toolkit.fluxcd.io/v2beta1\nkind: HelmRelease\nmetadata:\n  name: a\n"
    ),
    "deep/alerts.yaml": (
        "apiVersion: notification.toolkit.fluxcd.io/v1beta2\nkind: Alert\n---\n"
        "apiVersion: notification.toolkit.fluxcd.io/v1beta1\nkind: Receiver\n"
    ),
    "images.tpl": "apiVersion: image.toolkit.fluxcd.io/v1beta1\nkind: ImagePolicy\n",
}


def tree(root: Path) -> dict[str, str]:
    return {
        file.relative_to(root).as_posix(): file.read_text()
        for file in sorted(root.rglob("*"))
        if file.is_file()
    }


@pytest.fixture
def twins(tmp_path: Path) -> tuple[Path, Path]:
    """Return two directories with the same manifests."""
    roots = tmp_path / "theirs", tmp_path / "ours"
    for root in roots:
        for name, content in MANIFESTS.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    return roots


@pytest.mark.parametrize(
    "words",
    [
        ("--yes",),
        ("--yes", "--extensions=.yaml,.tpl"),
        ("--yes", "--version=2.6", "-e", ".tpl"),
        ("--dry-run",),
        ("--version=2.1", "--yes"),
    ],
    ids=["all", "extensions", "version", "dry", "unknown"],
)
async def test_both_write_the_same_files(
    flux_program: Path,
    twins: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    theirs, ours = twins
    process = await asyncio.create_subprocess_exec(
        flux_program,
        *("migrate", "-f", ".", *words),
        cwd=theirs,
        env={"PATH": os.defpath, "HOME": str(theirs)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    code = await process.wait()
    monkeypatch.chdir(ours)

    ended = await command.alone("migrate", "-f", ".", *words)

    assert ended.code == code, ended.err
    assert tree(theirs) == tree(ours)


async def test_flags_of_the_other_ways_are_refused(tmp_path: Path) -> None:
    cases = {
        ("-f", str(tmp_path), "--from-flux"): "--path and --from-flux exclude each other",
        ("--rollback",): "--rollback needs --from-flux",
        ("--version=2.6",): "--version needs --path",
        ("-f", str(tmp_path), "--allow-references"): "--allow-references needs --from-flux",
        ("-f", str(tmp_path / "none")): "neither a file nor a directory",
    }

    for words, told in cases.items():
        ended = await command.alone("migrate", *words)
        assert (ended.code, told in ended.err) == (1, True), ended.err


async def test_what_a_person_has_to_change_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: source.toolkit.fluxcd.io/v1alpha1\nkind: Bucket\n"
    )

    ended = await command.alone("migrate", "-f", str(tmp_path), "--yes")
    nothing = await command.alone("migrate", "-f", str(tmp_path), "-e", ".tpl")

    assert (ended.code, nothing.code) == (1, 0)
    assert "has no version source.toolkit.fluxcd.io/v1alpha1" in ended.err
    assert "no custom resources found that require migration" in nothing.err


def test_without_a_terminal_nothing_is_changed_and_the_flag_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ks.yaml"
    text = "apiVersion: kustomize.toolkit.fluxcd.io/v1beta2\nkind: Kustomization\n"
    file.write_text(text)

    code = main(("migrate", "--path", str(tmp_path)))

    assert code == 1
    assert "use --yes" in capsys.readouterr().err
    assert file.read_text() == text
