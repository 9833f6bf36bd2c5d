"""What may stay encrypted through a build, and what shows afterwards that it may not."""

import base64
import json
from typing import Any

import pytest

from controllers.kustomize import carriers
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import envelope, objects
from toolkit.objects import Json

SOPS = Reference()


def encrypted(*, kind: str = "Secret", **annotations: str) -> bytes:
    manifest = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "db", "annotations": annotations},
        "stringData": {"password": "hunter2"},
    }
    return SOPS.yaml(
        manifest,
        plain=lambda path: path[0] != "stringData",
        encrypted_regex="^(data|stringData)$",
    )


FILE = encrypted()
CARRIED = carriers.carry({"db.yaml": FILE}, substitutes=False)


def built(**changes: Any) -> Json:
    """Return the carrier as kustomize gives it back, but for these fields."""
    return {**json.loads(CARRIED["db.yaml"]), **changes}


def value(raw: bytes) -> Json:
    """Return a generated Secret with a file as its value."""
    data = {"f": base64.b64encode(raw).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "g"}, "data": data}


def test_only_files_of_one_secret_get_a_carrier() -> None:
    files = {"s.yaml": FILE, "c.yaml": encrypted(kind="ConfigMap"), "e.env": b"A=1\n"}

    assert set(carriers.carry(files, substitutes=False)) == {"s.yaml"}


def test_text_that_may_hold_variables_gets_none_while_they_are_replaced() -> None:
    kept = encrypted(**{"kustomize.toolkit.fluxcd.io/substitute": "disabled"})

    assert set(carriers.carry({"s": FILE, "kept": kept}, substitutes=True)) == {"kept"}


def test_a_carrier_that_was_only_renamed_stays_encrypted() -> None:
    renamed = built(metadata={**built()["metadata"], "name": "prefix-db", "namespace": "x"})

    found = carriers.sort([renamed], {}, CARRIED)

    assert found == carriers.Sorted(objects=(renamed,), left=frozenset())


def test_lines_that_kustomize_broke_are_the_same_document() -> None:
    coded = built()["data"][envelope.CARRIER]
    lines = "\n".join(coded[at : at + 70] for at in range(0, len(coded), 70)) + "\n"

    assert carriers.sort([built(data={envelope.CARRIER: lines})], {}, CARRIED)


@pytest.mark.parametrize(
    "changes",
    [
        {"data": {**built()["data"], "extra": "MQ=="}},
        {"stringData": {"password": "override"}},
        {"data": {}},
        {"data": {envelope.CARRIER: base64.b64encode(b"other").decode()}},
    ],
    ids=["beside", "text", "removed", "replaced"],
)
def test_a_patch_of_the_values_means_clear(changes: Json) -> None:
    assert carriers.sort([built(**changes)], {}, CARRIED) is None


def test_a_file_that_is_a_value_as_a_whole_is_marked() -> None:
    raw = SOPS.yaml({"user": "x"})

    found = carriers.sort([value(raw)], {"f.yaml": raw}, {})

    assert found is not None
    assert not found.left
    assert carriers.opted(found.objects[0])


def test_files_that_turn_up_nowhere_whole_are_left_to_decrypt() -> None:
    raw = SOPS.yaml({"user": "x"})

    found = carriers.sort([built()], {"patch.yaml": raw}, CARRIED)

    assert found is not None
    assert found.left == {"patch.yaml"}


def test_ciphertext_that_nobody_will_decrypt_means_clear() -> None:
    stray = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    stray["data"] = {"a": SOPS.seal("x", "data:a:")}  # type: ignore[assignment]  # JSON

    assert carriers.sort([built(), stray], {}, CARRIED) is None


def test_what_is_to_stay_ciphertext_is_not_marked() -> None:
    raw = SOPS.yaml({"user": "x"})
    kept = value(raw)
    kept["metadata"]["annotations"] = {objects.OPT_OUT: "disabled"}

    found = carriers.sort([kept], {}, {})

    assert found is not None
    assert found.objects == (kept,)
