"""ExternalArtifacts: others make them, we keep what they uploaded.

Nothing of ours reconciles the kind, and no finalizer holds an object back until its artifacts are
deleted: its makers may not wait for us (``controllers.source.janitor``).
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
    # Followed by every replica; the author of an object writes it.
    Rule(
        groups=(KIND.group,), resources=(EXTERNAL_ARTIFACT.plural,), verbs=("get", "list", "watch")
    ),
)


def start(
    manager: Manager, options: Options, *, store: Store, lease: str
) -> Informer[ExternalArtifact]:
    """Wire the janitor into the manager; return the informer for anyone who reads the kind."""
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
