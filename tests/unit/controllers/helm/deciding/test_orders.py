"""What Helm is told, of the spec, with Flux's defaults."""

from typing import Any

import pytest

from controllers.helm.deciding import orders
from controllers.helm.deciding.decisions import Action
from tests.fakes.releases import release

Json = dict[str, Any]

OWNER = {"helm.toolkit.fluxcd.io/name": "app", "helm.toolkit.fluxcd.io/namespace": "team"}
RENDERING: Json = {
    "postRenderStrategy": "combined",
    "commonMetadata": {"labels": OWNER, "annotations": {}},
}
ON_SERVER = {"serverSideApply": "auto", "forceConflicts": True}
INSTALL: Json = {
    **RENDERING,
    "crds": "Create",
    "takeOwnership": True,
    "serverSideApply": "true",
    "forceConflicts": True,
}
UPGRADE: Json = {**RENDERING, "crds": "Skip", "takeOwnership": True, "maxHistory": 5, **ON_SERVER}

ROWS: list[tuple[Action, Json, Json]] = [
    # action, spec, options
    (Action.INSTALL, {}, INSTALL),
    (Action.INSTALL, {"install": {"createNamespace": True}}, INSTALL),
    (
        Action.INSTALL,
        {"targetNamespace": "x", "install": {"createNamespace": True}},
        {**INSTALL, "createNamespace": True},
    ),
    (Action.INSTALL, {"install": {"skipCRDs": True}}, {**INSTALL, "crds": "Skip"}),
    (
        Action.INSTALL,
        {"install": {"crds": "CreateReplace", "replace": True, "disableHooks": True}},
        {**INSTALL, "crds": "CreateReplace", "replace": True, "disableHooks": True},
    ),
    (
        Action.INSTALL,
        {"install": {"serverSideApply": False, "disableTakeOwnership": True}},
        {**RENDERING, "crds": "Create", "serverSideApply": "false"},
    ),
    (Action.UPGRADE, {}, UPGRADE),
    (Action.UPGRADE, {"maxHistory": 3}, {**UPGRADE, "maxHistory": 3}),
    (
        Action.UPGRADE,
        {"upgrade": {"force": True, "cleanupOnFail": True, "preserveValues": True}},
        {**UPGRADE, "force": True, "cleanupOnFail": True, "reuseValues": True},
    ),
    (
        Action.UPGRADE,
        {"upgrade": {"serverSideApply": "disabled", "disableSchemaValidation": True}},
        {
            **{key: value for key, value in UPGRADE.items() if key != "forceConflicts"},
            "serverSideApply": "false",
            "disableSchemaValidation": True,
        },
    ),
    (Action.ROLLBACK, {}, {"maxHistory": 5, **ON_SERVER}),
    (
        Action.ROLLBACK,
        {"rollback": {"disableHooks": True, "serverSideApply": "enabled"}},
        {"maxHistory": 5, "disableHooks": True, "serverSideApply": "true", "forceConflicts": True},
    ),
    (Action.TEST, {}, {}),
    (
        Action.TEST,
        {"test": {"filters": [{"name": "a"}, {"name": "b", "exclude": True}]}},
        {"filters": {"name": ["a"], "!name": ["b"]}},
    ),
    (Action.UNINSTALL, {}, {"deletionPropagation": "background"}),
    (
        Action.UNINSTALL,
        {"uninstall": {"keepHistory": True, "deletionPropagation": "orphan"}},
        {"keepHistory": True, "deletionPropagation": "orphan"},
    ),
    (Action.UNLOCK, {}, {}),
]


@pytest.mark.parametrize(("action", "spec", "expected"), ROWS)
def test_options_are_those_of_the_spec(action: Action, spec: Json, expected: Json) -> None:
    assert orders.options(release(spec=spec), action) == expected


def test_owner_labels_win_over_common_metadata() -> None:
    own = "helm.toolkit.fluxcd.io/name"
    spec = {"commonMetadata": {"labels": {own: "other", "a": "b"}, "annotations": {"c": "d"}}}

    common = orders.rendering(release(spec=spec))["commonMetadata"]

    assert common == {"labels": {**OWNER, "a": "b"}, "annotations": {"c": "d"}}


def test_post_renderers_are_passed_on_in_order() -> None:
    images = [{"kustomize": {"images": [{"name": n, "newTag": "1"}]}} for n in ("a", "b")]

    told = orders.rendering(release(spec={"postRenderers": [{}, *images]}))["postRenderers"]

    assert [each["images"][0]["name"] for each in told] == ["a", "b"]


def test_encrypted_secrets_are_carried_where_keys_are_named() -> None:
    spec = {"decryption": {"provider": "sops", "secretRef": {"name": "keys"}}}

    told = orders.options(release(spec=spec), Action.UPGRADE)["carriers"]

    assert told == {
        "label": "sops.penstock.dev/decrypt",
        "value": "true",
        "key": "penstock.sops.yaml",
        "optOut": "kustomize.toolkit.fluxcd.io/decrypt",
        "marker": "ENC[AES256_GCM,",
    }
    assert "carriers" not in orders.options(release(), Action.UPGRADE)
