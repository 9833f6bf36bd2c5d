"""The inputs of a build besides its sources: substitution variables and decryption keys.

The fingerprint of a reconciliation contains the resourceVersion of each object read here. So a
reconciliation can find without a build that nothing changed. A Kustomization that names no such
object costs no request.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from controllers.kustomize.decryption import Decryption, Keys
from crds.kustomize import Kustomization
from toolkit.errors import TransientError
from toolkit.kube.errors import NotFoundError
from toolkit.kube.secrets import CONFIG_MAP, SECRET, Secrets
from toolkit.objects import ObjectRef
from toolkit.policy import counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Variables by name, decryption keys, and the versions of the objects that contain them.

    ``admission`` tells that a webhook decrypts Secrets at admission. ``secrets`` are the variables'
    values from Secrets, which no message may show.
    """

    variables: dict[str, str] = field(repr=False)
    keys: Keys | None
    versions: tuple[str, ...]
    admission: bool = False
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


def references(obj: Kustomization) -> Iterator[ObjectRef]:
    """Yield the ConfigMaps and Secrets that the spec names; their changes are watched.

    ``substituteFrom`` is read up to the permitted number of entries.
    """
    namespace = obj.metadata.namespace
    if obj.spec.post_build:
        for source in obj.spec.post_build.substitute_from[: counts.SUBSTITUTIONS]:
            gvk = SECRET if source.kind == "Secret" else CONFIG_MAP
            yield ObjectRef(gvk, namespace, source.name)
    if obj.spec.decryption and obj.spec.decryption.secret_ref:
        yield ObjectRef(SECRET, namespace, obj.spec.decryption.secret_ref.name)
    if obj.spec.kube_config and obj.spec.kube_config.secret_ref:
        yield ObjectRef(SECRET, namespace, obj.spec.kube_config.secret_ref.name)


async def gather(
    obj: Kustomization,
    secrets: Secrets,
    decryption: Decryption | None = None,
    *,
    admission: bool = False,
) -> Inputs:
    """Read the variables and keys that the spec names.

    Later ``substituteFrom`` entries win over earlier ones, and ``substitute`` over all of them.
    With ``admission`` the keys are read only if the build finds a document that needs them. Without
    ``decryption`` they are never read.

    Raises:
        TransientError: an object that is not optional does not exist, or its content is invalid.
        StalledError: ``substituteFrom`` has too many entries.
    """
    versions: list[str] = []
    variables: dict[str, str] = {}
    hidden: set[str] = set()
    namespace = obj.metadata.namespace
    post_build = obj.spec.post_build
    substituted = post_build.substitute_from if post_build else []
    counts.require_few("spec.postBuild.substituteFrom", substituted, counts.SUBSTITUTIONS)
    for source in substituted:
        gvk = SECRET if source.kind == "Secret" else CONFIG_MAP
        try:
            data = await secrets.data(gvk, namespace, source.name, reason="BuildFailed")
        except TransientError as error:
            if source.optional and isinstance(error.__cause__, NotFoundError):
                continue
            raise
        versions.append(data.version)
        found = {name: _text(value) for name, value in data.values.items()}
        variables.update(found)
        hidden.update(found.values() if gvk == SECRET else ())
    variables.update(post_build.substitute if post_build else {})
    keys = None
    if obj.spec.decryption and decryption:
        # Without a Secret and an account, the webhook has no keys.
        lent = obj.spec.decryption.secret_ref or obj.spec.decryption.service_account_name
        admission = admission and bool(lent)
        keys = decryption.keys(obj, versions)
        if not admission:
            await keys.load()
    return Inputs(
        variables=variables,
        keys=keys,
        versions=(*versions, "admission") if admission and keys else tuple(versions),
        admission=admission,
        secrets=frozenset(hidden),
    )


def _text(value: bytes) -> str:
    """Return the value of a variable without line breaks, which would make the YAML invalid."""
    return value.decode("utf-8", errors="replace").replace("\r", "").replace("\n", "")
