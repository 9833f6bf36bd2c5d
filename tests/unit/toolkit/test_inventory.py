"""Inventory ids have Flux's form, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit import errors, inventory
from toolkit.inventory import Entry
from toolkit.objects import GroupVersionKind, ObjectRef


def _ref(api_version: str, kind: str, name: str, namespace: str = "") -> ObjectRef:
    return ObjectRef(GroupVersionKind.parse(api_version, kind), namespace, name)


@pytest.mark.parametrize(
    ("ref", "entry_id"),
    [
        (_ref("apps/v1", "Deployment", "web", "shop"), "shop_web_apps_Deployment"),
        (_ref("v1", "ConfigMap", "conf", "shop"), "shop_conf__ConfigMap"),
        (_ref("v1", "Namespace", "shop"), "_shop__Namespace"),
        (
            _ref("rbac.authorization.k8s.io/v1", "ClusterRole", "system:view"),
            "_system__view_rbac.authorization.k8s.io_ClusterRole",
        ),
        (
            _ref("rbac.authorization.k8s.io/v1", "Role", "a_b", "shop"),
            "shop_a_b_rbac.authorization.k8s.io_Role",
        ),
    ],
)
def test_ids_are_written_and_read_as_flux_does(ref: ObjectRef, entry_id: str) -> None:
    written = Entry(ref).id
    read = Entry.parse(entry_id, ref.gvk.version)

    assert written == entry_id
    assert read.ref == ref


@pytest.mark.parametrize("entry_id", ["", "x", "a_b", "a_b_c", "_", "___", "a__g_K_"])
def test_a_malformed_id_is_refused(entry_id: str) -> None:
    with pytest.raises(errors.StalledError, match="malformed inventory id"):
        Entry.parse(entry_id, "v1")


@given(
    namespace=st.from_regex(r"([a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?)?", fullmatch=True),
    name=st.from_regex(r"[a-z0-9]([-.a-z0-9]{0,20}[a-z0-9])?", fullmatch=True),
    group=st.sampled_from(["", "apps", "example.com", "rbac.authorization.k8s.io"]),
)
def test_every_name_survives_the_round_trip(namespace: str, name: str, group: str) -> None:
    ref = ObjectRef(GroupVersionKind(group, "v1", "Thing"), namespace, name)

    assert Entry.parse(Entry(ref).id, "v1").ref == ref


def test_a_version_change_is_not_a_difference() -> None:
    old = [_ref("apps/v1beta1", "Deployment", "web", "shop"), _ref("v1", "Secret", "s", "shop")]
    new = [_ref("apps/v1", "Deployment", "web", "shop")]

    assert inventory.difference(old, new) == (old[1],)


def test_status_entries_keep_their_order_and_drop_repeats() -> None:
    refs = [
        _ref("v1", "Namespace", "shop"),
        _ref("apps/v1", "Deployment", "web", "shop"),
        _ref("v1", "Namespace", "shop"),
    ]

    entries = inventory.encode(refs)

    assert entries == [
        {"id": "_shop__Namespace", "v": "v1"},
        {"id": "shop_web_apps_Deployment", "v": "v1"},
    ]
    assert inventory.decode(entries) == tuple(refs[:2])


def test_objects_of_a_kind_share_what_names_it() -> None:
    first, second = inventory.decode(
        [{"id": f"shop_{name}_apps_Deployment", "v": "v1"} for name in ("web", "api")]
    )

    assert first.gvk is second.gvk


def test_a_kind_with_a_name_beyond_all_bounds_is_not_kept() -> None:
    long = "K" * 100_000

    first, second = inventory.decode([{"id": f"shop_web_apps_{long}", "v": "v1"}] * 2)

    assert first == second
    assert first.gvk is not second.gvk
