"""What the components of appliers wire the same way: ways to clusters, and what is watched."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from controllers.applying.triggers import Triggers
from controllers.outside import Outside
from crds.kind import Kind
from toolkit.kube.informer import Informer
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.kube.remote import Entry, RemoteClients
from toolkit.kube.secrets import CONFIG_MAP, SECRET
from toolkit.objects import GroupVersionKind, Json

PERMISSIONS: Final = (
    # Drift and health of what was applied are seen by watching it, and so are records of releases.
    # Nothing else is written: every write is impersonated. Not `get`: with `*` it includes
    # subresources, and who may get nodes/proxy can run commands in every container.
    Rule(groups=("*",), resources=("*",), verbs=("list", "watch")),
    # What specs name: values, kubeconfigs, keys, and the account that a deletion acts as.
    Rule(groups=("",), resources=("configmaps", "secrets", "serviceaccounts"), verbs=("get",)),
)


def remotes(manager: Manager, options: Options, outside: Outside) -> RemoteClients:
    """Return the clients of the clusters that ``spec.kubeConfig`` leads to."""
    return RemoteClients(
        manager.client,
        cloud=outside.cloud,
        tokens=outside.tokens,
        allow_insecure_tls=options.insecure_kubeconfig_tls,
        entry=Entry(
            default_service_account=options.default_kubeconfig_service_account,
            shared_identity=options.shared_kubeconfig_identity,
        ),
    )


def sources(
    manager: Manager, options: Options, kinds: Iterable[Kind[Any]]
) -> Mapping[str, tuple[GroupVersionKind, Informer[Any]]]:
    """Return the sources of these kinds, by kind, each kept by an informer of the manager's."""
    found = {}
    for kind in kinds:
        gvk = GroupVersionKind(*kind.gvk)
        informer: Informer[Any] = Informer(
            manager.client,
            gvk,
            decode=msgspec.json.Decoder(kind.model).decode,
            namespace="" if options.watch_all_namespaces else manager.namespace,
        )
        manager.add_informer(informer)
        found[kind.kind] = gvk, informer
    return found


def configs(manager: Manager, options: Options, triggers: Triggers[Any]) -> None:
    """Have labelled ConfigMaps and Secrets wake those who use them."""
    for gvk in (CONFIG_MAP, SECRET):
        informer: Informer[Json] = Informer(
            manager.client,
            gvk,
            decode=msgspec.json.decode,
            label_selector=options.watch_configs_label_selector,
            metadata_only=True,
        )
        informer.subscribe(triggers.config(gvk))
        manager.add_informer(informer)
