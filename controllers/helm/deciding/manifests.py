"""The objects of a release: which the manifest contains, and how Helm applies them. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from controllers.helm.deciding import targets
from controllers.helm.deciding.orders import owner_labels
from crds.helm import HelmRelease
from toolkit.objects import Json, dig, gvk_of, key_of

_DEFINITION: Final = ("apiextensions.k8s.io", "CustomResourceDefinition")
_MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "Helm"}
_RELEASE: Final = "meta.helm.sh/release-"


def renders(manifest: str, obj: Json) -> bool:
    """Tell whether the manifest of a record contains an object.

    It does not contain CustomResourceDefinitions from the ``crds`` directory of the chart, which
    the spec may skip.
    """
    return gvk_of(obj).group_kind != _DEFINITION or key_of(obj).name in manifest


def applied(each: Json, obj: HelmRelease) -> Json:
    """Return an object with the labels and annotations that Helm adds to applied objects.

    The source of the rule is Helm's ``pkg/action/validate.go``.
    """
    metadata = dict(each.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **owner_labels(obj), **_MANAGED_BY}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        **_owner(obj),
    }
    return {key: value for key, value in each.items() if key != "status"} | {"metadata": metadata}


def placed(objects: Sequence[Json], namespace: str) -> Iterator[Json]:
    """Yield the objects; if one has a kind defined among them and no namespace, add ``namespace``.

    The engine has set the namespace of objects whose kinds the API server serves.
    """
    defined = {
        (dig(each, "spec", "group"), dig(each, "spec", "names", "kind"))
        for each in objects
        if gvk_of(each).group_kind == _DEFINITION and dig(each, "spec", "scope") == "Namespaced"
    }
    for each in objects:
        if gvk_of(each).group_kind in defined and not key_of(each).namespace:
            yield {**each, "metadata": {**each["metadata"], "namespace": namespace}}
        else:
            yield each


def stays(live: Json, obj: HelmRelease) -> bool:
    """Tell whether an object stays in the cluster that is no longer in the release.

    Either Helm keeps it, or another release has taken it over (``engine/internal/helm``).
    """
    marks, notes = (dig(live, "metadata", name, default={}) for name in ("labels", "annotations"))
    owns = _MANAGED_BY.items() <= marks.items() and _owner(obj).items() <= notes.items()
    return bool(notes.get("helm.sh/resource-policy") == "keep") or not owns


def _owner(obj: HelmRelease) -> dict[str, str]:
    return {
        f"{_RELEASE}name": targets.release_name(obj),
        f"{_RELEASE}namespace": targets.release_namespace(obj),
    }
