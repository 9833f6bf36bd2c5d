"""``penstock build`` and ``diff``: local files against the cluster, which stays as it is."""

from pathlib import Path
from typing import Any

import pytest
import yaml

GROUP = "kustomize.toolkit.fluxcd.io"
MANAGER = "kustomize-controller"


@pytest.fixture
def files(tmp_path: Path, cluster: Any) -> Path:
    """Write a ConfigMap and a Secret, and the Kustomization that builds them."""
    cluster.kustomization("apps", spec={"postBuild": {"substitute": {"who": "you"}}})
    folder = tmp_path / "deploy"
    folder.mkdir()
    write(folder / "banner.yaml", cluster, "ConfigMap", "banner", data={"text": "hello ${who}"})
    write(folder / "login.yaml", cluster, "Secret", "login", stringData={"password": "hunter2"})
    return folder


def write(path: Path, cluster: Any, kind: str, name: str, **fields: Any) -> None:
    metadata = {"name": name, "namespace": cluster.namespace}
    path.write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields})
    )


@pytest.fixture
def applied(files: Path, cluster: Any, penstock: Any) -> Path:
    built = penstock("build", "ks", "apps", "--path", str(files), "-n", cluster.namespace)
    cluster.plane.kubectl(
        *("apply", "--server-side", f"--field-manager={MANAGER}", "-f", "-"), stdin=built.out
    )
    entries = [
        {"id": f"{cluster.namespace}_banner__ConfigMap", "v": "v1"},
        {"id": f"{cluster.namespace}_login__Secret", "v": "v1"},
    ]
    cluster.patch_status("kustomization", "apps", {"status": {"inventory": {"entries": entries}}})
    return files


def test_build_substitutes_and_labels(files: Path, cluster: Any, penstock: Any) -> None:
    result = penstock("build", "ks", "apps", "--path", str(files), "-n", cluster.namespace)

    objects = {obj["kind"]: obj for obj in yaml.safe_load_all(result.out)}
    assert objects["ConfigMap"]["data"] == {"text": "hello you"}
    assert objects["ConfigMap"]["metadata"]["labels"] == {
        f"{GROUP}/name": "apps",
        f"{GROUP}/namespace": cluster.namespace,
    }


def test_what_is_applied_shows_no_difference(applied: Path, cluster: Any, penstock: Any) -> None:
    result = penstock("diff", "ks", "apps", "--path", str(applied), "-n", cluster.namespace)

    assert (result.code, result.out, result.err) == (0, "", "")


def test_changes_are_shown_by_field_and_exit_with_one(
    applied: Path, cluster: Any, penstock: Any
) -> None:
    write(applied / "banner.yaml", cluster, "ConfigMap", "banner", data={"text": "bye ${who}"})
    write(applied / "new.yaml", cluster, "ConfigMap", "new", data={})

    result = penstock("diff", "ks", "apps", "--path", str(applied), "-n", cluster.namespace)

    assert result.code == 1
    assert result.out.splitlines() == [
        f"► ConfigMap/{cluster.namespace}/banner drifted",
        '  ~ data.text: "hello you" → "bye you"',
        f"► ConfigMap/{cluster.namespace}/new created",
    ]
    assert cluster.read("configmap", "banner")["data"] == {"text": "hello you"}


def test_secret_values_are_not_shown(applied: Path, cluster: Any, penstock: Any) -> None:
    write(applied / "login.yaml", cluster, "Secret", "login", stringData={"password": "swordfish"})

    result = penstock("diff", "ks", "apps", "--path", str(applied), "-n", cluster.namespace)

    assert "~ data.password: *** (before) → *** (after)" in result.out
    assert "swordfish" not in result.out + result.err
    assert "c3dvcmRmaXNo" not in result.out + result.err


def test_removed_manifest_is_a_deletion(applied: Path, cluster: Any, penstock: Any) -> None:
    (applied / "banner.yaml").unlink()

    result = penstock("diff", "ks", "apps", "--path", str(applied), "-n", cluster.namespace)

    assert result.code == 1
    assert result.out == f"► ConfigMap/{cluster.namespace}/banner deleted\n"
    assert cluster.read("configmap", "banner")["data"]


def test_objects_of_a_namespace_to_come_are_created(
    applied: Path, cluster: Any, penstock: Any
) -> None:
    name = f"{cluster.namespace}-b"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    inside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": name}}
    (applied / "more.yaml").write_text(yaml.safe_dump_all([namespace, inside]))

    result = penstock("diff", "ks", "apps", "--path", str(applied), "-n", cluster.namespace)

    assert f"► Namespace/{name} created" in result.out
    assert f"► ConfigMap/{name}/x created" in result.out


def test_refused_objects_are_all_named(applied: Path, cluster: Any, penstock: Any) -> None:
    for name in ("one", "two"):
        spec = {"replicas": "many"}
        write(applied / f"{name}.yaml", cluster, "Service", name, spec=spec)

    result = penstock("diff", "ks", "apps", "--path", str(applied), "-n", cluster.namespace)

    assert result.code == 2
    assert "/one" in result.err
    assert "/two" in result.err


def test_broken_manifests_are_told_with_the_file(
    applied: Path, cluster: Any, penstock: Any
) -> None:
    (applied / "broken.yaml").write_text("kind: [")

    result = penstock("build", "ks", "apps", "--path", str(applied), "-n", cluster.namespace)

    assert result.code == 1
    assert "broken.yaml" in result.err
