"""The options of an action, computed from the spec. Pure.

``engine/internal/helm`` defines the names. The defaults are Flux's (helm-controller
``internal/action``).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec

from controllers.helm.deciding.decisions import Action
from crds.helm import GROUP, HelmRelease
from crds.helm_actions import Install, Rollback, Test, Uninstall, Upgrade
from toolkit.decrypt import envelope, objects
from toolkit.decrypt.cipher import MARKER
from toolkit.objects import Json

MANAGER: Final = "helm-controller"
"""Field manager of the objects of releases, the same as Flux's."""

Options: TypeAlias = Mapping[str, Any]


def options(obj: HelmRelease, action: Action) -> Json:
    """Return the options of an action, without unset ones."""
    given = _OPTIONS[action](obj)
    return {name: value for name, value in given.items() if value not in (None, "", False)}


def owner_labels(obj: HelmRelease) -> dict[str, str]:
    """Return the labels that every object of the release gets."""
    return {f"{GROUP}/name": obj.metadata.name, f"{GROUP}/namespace": obj.metadata.namespace}


def rendering(obj: HelmRelease) -> Json:
    """Return the options that change rendered objects before they are applied."""
    common = obj.spec.common_metadata
    return {
        "postRenderStrategy": obj.spec.post_render_strategy,
        "postRenderers": [
            msgspec.to_builtins(each.kustomize)
            for each in obj.spec.post_renderers
            if each.kustomize
        ]
        or None,
        "commonMetadata": {
            "labels": {**(common.labels if common else {}), **owner_labels(obj)},
            "annotations": dict(common.annotations) if common else {},
        },
        "carriers": dict(_CARRIERS) if obj.spec.decryption else None,
    }


_CARRIERS: Final = MappingProxyType(
    {
        "label": envelope.LABEL,
        "value": envelope.ENABLED,
        "key": envelope.CARRIER,
        "optOut": objects.OPT_OUT,
        "marker": MARKER,
    }
)
"""Marks of an encrypted Secret that a webhook must decrypt (``toolkit.decrypt.envelope``)."""


def _install(obj: HelmRelease) -> Json:
    said = obj.spec.install or Install()
    on_server = said.server_side_apply is not False
    return rendering(obj) | {
        "disableHooks": said.disable_hooks,
        "disableSchemaValidation": said.disable_schema_validation,
        "crds": "Skip" if said.skip_crds else said.crds,
        # Without a target namespace, the release goes to the namespace of the HelmRelease.
        "createNamespace": said.create_namespace and bool(obj.spec.target_namespace),
        "replace": said.replace,
        "takeOwnership": not said.disable_take_ownership,
        "serverSideApply": "true" if on_server else "false",
        "forceConflicts": on_server,
    }


def _upgrade(obj: HelmRelease) -> Json:
    said = obj.spec.upgrade or Upgrade()
    return rendering(obj) | {
        "maxHistory": obj.spec.history_limit,
        "disableHooks": said.disable_hooks,
        "disableSchemaValidation": said.disable_schema_validation,
        "crds": said.crds,
        "force": said.force,
        "cleanupOnFail": said.cleanup_on_fail,
        "reuseValues": said.preserve_values,
        "takeOwnership": not said.disable_take_ownership,
        **_applying(said.server_side_apply),
    }


def _rollback(obj: HelmRelease) -> Json:
    said = obj.spec.rollback or Rollback()
    return {
        "maxHistory": obj.spec.history_limit,
        "disableHooks": said.disable_hooks,
        "force": said.force,
        "cleanupOnFail": said.cleanup_on_fail,
        **_applying(said.server_side_apply),
    }


def _test(obj: HelmRelease) -> Json:
    filters = (obj.spec.test or Test()).filters
    chosen = {
        "name": [each.name for each in filters if not each.exclude],
        "!name": [each.name for each in filters if each.exclude],
    }
    return {"filters": {key: names for key, names in chosen.items() if names} or None}


def _uninstall(obj: HelmRelease) -> Json:
    said = obj.spec.uninstall or Uninstall()
    return {
        "disableHooks": said.disable_hooks,
        "keepHistory": said.keep_history,
        "deletionPropagation": said.deletion_propagation,
    }


def _nothing(_: HelmRelease) -> Json:
    return {}


def _applying(mode: str) -> Json:
    """Return the options for server-side apply; ``auto`` means as in the last release."""
    chosen = {"enabled": "true", "disabled": "false"}.get(mode, "auto")
    return {"serverSideApply": chosen, "forceConflicts": chosen != "false"}


_OPTIONS: Final[Mapping[Action, Callable[[HelmRelease], Json]]] = MappingProxyType(
    {
        Action.INSTALL: _install,
        Action.UPGRADE: _upgrade,
        Action.ROLLBACK: _rollback,
        Action.TEST: _test,
        Action.UNINSTALL: _uninstall,
        Action.UNLOCK: _nothing,
    }
)
