"""ExternalArtifacts: third parties write these objects, and upload artifacts to the store.

Penstock does not reconcile this kind, and its objects have no finalizer. So an object may be
deleted before its artifacts, which ``controllers.source.janitor`` deletes afterwards.
"""

from typing import Final

import msgspec

from controllers.source.janitor import Janitor
from crds import EXTERNAL_ARTIFACT
from crds.source_external import ExternalArtifact
from toolkit.artifact.store import Store
from toolkit.kube.informer import Informer
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.objects import GroupVersionKind

KIND: Final = GroupVersionKind(*EXTERNAL_ARTIFACT.gvk)

PERMISSIONS: Final = (
    # Every replica watches the objects; only their authors write them.
    Rule(
        groups=(KIND.group,), resources=(EXTERNAL_ARTIFACT.plural,), verbs=("get", "list", "watch")
    ),
)


def start(
    manager: Manager, options: Options, *, store: Store, lease: str
) -> Informer[ExternalArtifact]:
    """Wire the janitor into the manager; return the informer of the kind for other users."""
    informer: Informer[ExternalArtifact] = Informer(
        manager.client,
        KIND,
        decode=msgspec.json.Decoder(ExternalArtifact).decode,
        namespace="" if options.watch_all_namespaces else manager.namespace,
    )
    janitor = Janitor(manager.client, store, informer, uploads=True)
    manager.add_informer(informer)
    manager.add_elected(janitor.run, lease=lease)
    return informer
