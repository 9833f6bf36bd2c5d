"""The table of a node's programs beside that of the control plane."""

from controlplane.node import components


def test_kwok_does_not_run_beside_a_kubelet() -> None:
    names = [component.name for component in components.ALL]

    assert "kwok" not in names
    assert len(names) == len(set(names))


def test_flags_for_a_node_take_the_place_of_the_usual_ones() -> None:
    server = next(each for each in components.CONTROL_PLANE if each.name == "kube-apiserver")

    flags = server.with_flags(components.FLAGS[server.name]).flags

    assert [flag for flag in flags if flag.startswith("--authorization-mode")] == [
        "--authorization-mode=Node,RBAC"
    ]
