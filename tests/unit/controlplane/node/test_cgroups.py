"""Cgroups of both versions, with folders in place of the kernel's."""

from pathlib import Path

from controlplane.node import cgroups


def test_version_1_gets_one_in_each_hierarchy_and_loses_all(tmp_path: Path) -> None:
    for hierarchy in ("cpu", "memory"):
        (tmp_path / hierarchy).mkdir()
        (tmp_path / hierarchy / "cgroup.procs").touch()
    (tmp_path / "cpuacct").symlink_to("cpu")

    cgroups.create("node1", root=tmp_path)
    (tmp_path / "cpu" / "node1" / "kubepods" / "pod1").mkdir(parents=True)
    made = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/node1"))
    cgroups.remove("node1", root=tmp_path)

    assert made == ["cpu/node1", "cpuacct/node1", "memory/node1"]
    assert list(tmp_path.rglob("node1")) == []


def test_version_2_hands_its_controllers_on(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")

    cgroups.create("node1", root=tmp_path)

    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (tmp_path / "node1").is_dir()
