"""Manifests get the newest version, and nothing else of a file changes."""

import stat
from pathlib import Path

import pytest

from cli import errors
from cli.check import files
from cli.versions import rewriting
from cli.versions.targets import Target

MANIFESTS = """\
# comment
apiVersion: source.toolkit.fluxcd.io/v1beta2  # kept
kind: GitRepository
metadata: {name: a}
---
kind: Kustomization
metadata:
  name: a
apiVersion: "kustomize.toolkit.fluxcd.io/v1beta2"
spec:
  healthChecks:
    - apiVersion: helm.toolkit.fluxcd.io/v2beta1
      kind: HelmRelease
    - kind: HelmRelease

      # of another release
      apiVersion: helm.toolkit.fluxcd.io/v2beta2
    - apiVersion: helm.toolkit.fluxcd.io/v2beta2
    - kind: HelmRelease
---
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
"""


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def changed(path: Path, version: str = "") -> str:
    found = rewriting.look(path, Target.named(version))
    if found.edits:
        rewriting.write(found)
    return path.read_bytes().decode()


def test_only_the_versions_change(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", MANIFESTS)

    after = changed(file)

    expected = MANIFESTS.replace("source.toolkit.fluxcd.io/v1beta2", "source.toolkit.fluxcd.io/v1")
    expected = expected.replace('io/v1beta2"', 'io/v1"').replace("v2beta1", "v2")
    # the last but one has no kind: the next entry's is another's
    expected = expected.replace(
        "      apiVersion: helm.toolkit.fluxcd.io/v2beta2",
        "      apiVersion: helm.toolkit.fluxcd.io/v2",
    )
    assert after == expected
    assert after.count("v2beta2") == 1


@pytest.mark.parametrize(
    "content",
    [
        "apiVersion: image.toolkit.fluxcd.io/v1beta1\r\nkind: ImagePolicy\r\n",
        "{{- if .x }}\napiVersion: image.toolkit.fluxcd.io/v1beta1\nkind: ImagePolicy\n{{ end }}",
        '{\n  "apiVersion": "image.toolkit.fluxcd.io/v1beta1",\n  "kind": "ImagePolicy"\n}\n',
        "data:\n  x: |\n    apiVersion: image.toolkit.fluxcd.io/v1beta1\n    kind: ImagePolicy\n",
        b"# \xff\napiVersion: image.toolkit.fluxcd.io/v1beta1\nkind: ImagePolicy\n",
    ],
    ids=["crlf", "template", "json", "nested", "bytes"],
)
def test_text_of_any_sort_is_kept(tmp_path: Path, content: str | bytes) -> None:
    file = written(tmp_path / "a.yaml", content)
    before = file.read_bytes()

    found = rewriting.look(file, Target.named(""))
    rewriting.write(found)

    assert file.read_bytes() == before.replace(b"v1beta1", b"v1")


def test_permissions_are_kept_and_nothing_else_lies_around(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", MANIFESTS)
    file.chmod(0o640)

    changed(file)

    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [file]


def test_an_object_whose_values_read_differently_is_left_to_a_person(tmp_path: Path) -> None:
    content = MANIFESTS + (
        "---\napiVersion: source.toolkit.fluxcd.io/v1beta1\nkind: GitRepository\n"
        "metadata: {name: b}\nspec: {timeout: 1h}\n"
    )
    file = written(tmp_path / "a.yaml", content)

    found = rewriting.look(file, Target.named(""))

    assert len(found.edits) == 4
    assert found.left == (
        f"{file}:24: GitRepository: spec.timeout: '1h' is written '60m' in v1: change both by hand",
    )


def test_fields_that_flux_lost_are_told(tmp_path: Path) -> None:
    content = (
        "apiVersion: kustomize.toolkit.fluxcd.io/v1beta2\nkind: Kustomization\n"
        "metadata: {name: b}\nspec: {validation: client}\n"
    )
    file = written(tmp_path / "a.yaml", content)

    found = rewriting.look(file, Target.named(""))

    assert len(found.edits) == 1
    (note,) = found.notes
    told = "Kustomization: spec.validation: Flux has no such field any more; Penstock has it"
    assert note == f"{file}:1: {told}"


@pytest.mark.parametrize(
    ("version", "before", "after"),
    [
        ("", "v1beta2", "v1beta3"),
        ("", "v1", "v1"),
        ("2.9", "v1", "v1beta3"),
        ("penstock", "v1beta3", "v1"),
    ],
)
def test_alerts_get_what_flux_has_unless_another_target_is_named(
    tmp_path: Path, version: str, before: str, after: str
) -> None:
    text = "apiVersion: notification.toolkit.fluxcd.io/{}\nkind: Alert\n"
    file = written(tmp_path / "a.yaml", text.format(before))

    assert changed(file, version) == text.format(after)


def test_versions_that_nobody_knows_are_told(tmp_path: Path) -> None:
    text = "apiVersion: source.toolkit.fluxcd.io/v1alpha1\nkind: Bucket\n"
    file = written(tmp_path / "a.yaml", text)

    found = rewriting.look(file, Target.named(""))

    assert not found.edits
    assert found.left == (
        f"{file}:1: Bucket has no version source.toolkit.fluxcd.io/v1alpha1: write it anew",
    )
    with pytest.raises(errors.UsageError, match=r"--version: 2\.1 is not known: choose 2\.9"):
        Target.named("2.1")


def test_a_file_that_changed_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", MANIFESTS)
    found = rewriting.look(file, Target.named(""))
    written(file, "kind: Other\n")

    with pytest.raises(errors.UsageError, match="changed meanwhile"):
        rewriting.write(found)

    assert file.read_text() == "kind: Other\n"


def test_links_and_other_files_are_left_alone(tmp_path: Path) -> None:
    outside = written(tmp_path / "outside.yaml", MANIFESTS)
    root = tmp_path / "root"
    (root / ".git").mkdir(parents=True)
    (root / "dir").symlink_to(tmp_path)
    (root / "link.yaml").symlink_to(outside)
    written(root / ".git" / "a.yaml", MANIFESTS)
    written(root / "a.tpl", MANIFESTS)
    inside = written(root / "a.yml", MANIFESTS)

    assert list(rewriting.paths(root, None)) == [inside]
    assert list(rewriting.paths(root, (".tpl",))) == [root / "a.tpl"]
    for wrong, told in (
        (root / "link.yaml", "neither a file nor a directory"),
        (root / "none", "neither a file nor a directory"),
        (root / "a.tpl", "has none of the --extensions .yaml, .yml"),
    ):
        with pytest.raises(errors.UsageError, match=told):
            list(rewriting.paths(wrong, None))


def test_a_giant_is_not_read(tmp_path: Path) -> None:
    file = written(tmp_path / "a.yaml", b"# fluxcd.io/" + b"x" * files.LARGEST)

    found = rewriting.look(file, Target.named(""))

    assert not found.edits
    assert "is larger than" in found.left[0]
