"""The objects of an installation: ``deploy/base``, components, and changes by options.

It is a kustomization over the shipped manifests, built by the engine, with the same result as
``kubectl apply -k`` of the overlay.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

import msgspec
import yaml

from cli import errors
from cli.creating.secrets import DOCKER, docker_config
from cli.installing import components
from cli.stack import install
from toolkit.kube import rbac
from toolkit.native import calls
from toolkit.objects import GroupVersionKind, Json, gvk_of
from toolkit.render import kustomize
from toolkit.turns import ALONE

DEPLOY: Final = install.ROOT / "deploy"
INSTANCE: Final = "app.kubernetes.io/instance=penstock-system"
"""The label that all objects of an installation have, in whichever namespace it is."""
INCLUDED: Final = "network-policies"
"""The component that is a part of the base."""
KEPT: Final = frozenset({"CustomResourceDefinition", "Namespace"})
"""Kinds whose deletion would delete objects of users."""
DOMAIN: Final = "cluster.local"
"""Domain of Services, unless a cluster has another one."""
_NAMING: Final = frozenset({"Deployment", "Certificate"})
"""Kinds that name Services by their domain."""
_DEPLOYMENTS: Final = {"group": "apps", "kind": "Deployment"}
_ARGUMENTS: Final = "/spec/template/spec/containers/0/args/-"
_IMAGE: Final = "penstock"
_OVERLAY: Final = "overlay"
_BASE: Final = "../deploy/base/"
_SECONDS: Final = 120.0
_CERTIFICATES: Final = "cert-manager"
_SERVICES: Final = ("webhook", "penstock-apiserver")
"""The Services, and Certificates of the same name, that the API server asks."""
COMPONENTS: Final = components.NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The options; empty ``image`` or ``log_level`` mean those of the manifests.

    ``tolerations`` are keys of taints that the pods tolerate, ``pull_secret`` names a Secret of the
    namespace with the credentials for the image. ``registry`` replaces that of the manifests'
    image, ``creds`` is the login there, ``domain`` is the cluster domain.
    """

    namespace: str = rbac.NAMESPACE
    components: tuple[str, ...] = ()
    image: str = ""
    pull_secret: str = ""
    tolerations: tuple[str, ...] = ()
    log_level: str = ""
    registry: str = ""
    domain: str = DOMAIN
    policies: bool = True
    all_namespaces: bool = True
    creds: tuple[str, str] | None = field(default=None, repr=False)


def secrets(choice: Choice) -> tuple[Json, ...]:
    """Return the Secret with the login for the image, which belongs in the cluster alone."""
    if choice.creds is None:
        return ()
    host = (choice.image or choice.registry).partition("/")[0]
    config = docker_config(host, *choice.creds).encode()
    return (
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": choice.pull_secret,
                "namespace": choice.namespace,
                # so that it is deleted with the namespace when Penstock is removed
                "labels": dict([INSTANCE.split("=")]),
            },
            "type": DOCKER,
            "data": {".dockerconfigjson": base64.b64encode(config).decode()},
        },
    )


def overlay(choice: Choice) -> Json:
    """Return the kustomization, for a directory beside ``deploy``.

    Raises:
        UsageError: there is no such component, or the image names no repository.
    """
    unknown = sorted(set(choice.components) - {*COMPONENTS, INCLUDED})
    if unknown:
        known = ", ".join(COMPONENTS)
        raise errors.UsageError(f"--components: no component {unknown[0]!r}; there are {known}")
    wanted = [name for name in COMPONENTS if name in choice.components]
    base = yaml.safe_load((DEPLOY / "base" / "kustomization.yaml").read_text())
    *own, labels, definitions = base["components"]
    own = [each for each in own if choice.policies or not each.endswith(f"/{INCLUDED}")]
    # As if the components were parts of the base, so that their objects get the labels too.
    chosen = [*own, *(f"../components/{name}" for name in wanted), labels, definitions]
    made: Json = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": choice.namespace,
        "resources": [_BASE + each for each in base["resources"]],
        "components": [_BASE + each for each in chosen],
    }
    if choice.image:
        made["images"] = [_image(choice.image)]
    elif choice.registry:
        made["images"] = [{"name": _IMAGE, "newName": f"{choice.registry.rstrip('/')}/{_IMAGE}"}]
    patches: list[Json] = []
    if operations := _operations(choice):
        patches.append(_patch(_DEPLOYMENTS, operations))
    if not choice.all_namespaces:
        names = "|".join(sorted(set(components.OF_FLUX.values())))
        argument = {"path": _ARGUMENTS, "value": "--watch-all-namespaces=false"}
        # shards have the names of their controllers, and more
        patches.append(
            _patch({**_DEPLOYMENTS, "name": f"({names}).*"}, [{"op": "add", **argument}])
        )
    if _CERTIFICATES in wanted and choice.namespace != rbac.NAMESPACE:
        patches.extend(map(_named, _SERVICES, repeat(choice)))
    if patches:
        made["patches"] = patches
    return made


async def build(choice: Choice) -> tuple[Json, ...]:
    """Return the objects of the installation.

    Raises:
        UsageError: as ``overlay`` does.
        BuildError: the manifests cannot be built.
    """
    objects = await _built(overlay(choice))
    if choice.domain == DOMAIN:
        return objects
    return tuple(_moved(obj, choice.domain) for obj in objects)


def _moved(obj: Json, domain: str) -> Json:
    """Return an object that names Services in another domain of the cluster."""
    if obj["kind"] not in _NAMING:
        return obj
    text = msgspec.json.encode(obj).replace(f".svc.{DOMAIN}".encode(), f".svc.{domain}".encode())
    moved: Json = msgspec.json.decode(text)
    return moved


async def kinds() -> list[GroupVersionKind]:
    """Return the kinds that an installation may consist of, definitions and namespaces apart."""
    objects = await build(Choice(components=COMPONENTS))
    return sorted({gvk_of(obj) for obj in objects if obj["kind"] not in KEPT}, key=str)


async def _built(kustomization: Json) -> tuple[Json, ...]:
    mounts = {"deploy": DEPLOY, "crds": install.CRDS.parent}
    text = yaml.safe_dump(kustomization, sort_keys=False).encode()
    plan = kustomize.Build(
        mounts=mounts,
        path=_OVERLAY,
        transformations={},
        files={f"{_OVERLAY}/kustomization.yaml": text},
    )
    pool = calls.start(size=1, reads=tuple(mounts.values()))
    try:
        return (await kustomize.build(pool, plan, flow=ALONE, timeout=_SECONDS)).objects
    finally:
        await pool.close()


def _patch(target: Json, operations: Sequence[Json]) -> Json:
    return {"target": target, "patch": yaml.safe_dump(list(operations), sort_keys=False)}


def _named(service: str, choice: Choice) -> Json:
    """Return the patch by which a Certificate names its Service where that is."""
    host = f"{service}.{choice.namespace}.svc"
    value = [host, f"{host}.cluster.local"]
    return _patch(
        {"kind": "Certificate", "name": service},
        [{"op": "replace", "path": "/spec/dnsNames", "value": value}],
    )


def _image(reference: str) -> Json:
    """Take a reference to an image apart, ``host:port/name:tag@digest``."""
    named, _, digest = reference.partition("@")
    head, colon, tag = named.rpartition(":")
    if not colon or "/" in tag:
        head, tag = named, ""
    if not head or (digest and ":" not in digest):
        raise errors.UsageError(
            f"--image: {reference!r} names no image: write registry/name:tag or name@digest"
        )
    changed = {"newTag": tag, "digest": digest}
    return {"name": _IMAGE, "newName": head} | {k: v for k, v in changed.items() if v}


def _operations(choice: Choice) -> list[dict[str, Any]]:
    """Return the operations (RFC 6902) on each Deployment."""
    pod = "/spec/template/spec"
    wanted: tuple[tuple[str, Any, object], ...] = (
        (
            f"{pod}/tolerations",
            [{"key": key, "operator": "Exists"} for key in choice.tolerations],
            choice.tolerations,
        ),
        (f"{pod}/imagePullSecrets", [{"name": choice.pull_secret}], choice.pull_secret),
        (_ARGUMENTS, f"--log-level={choice.log_level}", choice.log_level),
    )
    return [{"op": "add", "path": path, "value": value} for path, value, said in wanted if said]
