"""The resource ``artifacts``: its row, and its informers and stores."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, Final

from apiserver import origin, owntoken
from apiserver.artifacts import blobs, hosts, observed
from apiserver.artifacts.catalog import Catalog
from apiserver.artifacts.columns import COLUMNS, FIELDS
from apiserver.artifacts.comparing import Diff
from apiserver.artifacts.content import Content
from apiserver.artifacts.files import Files
from apiserver.artifacts.hosts import Hosts
from apiserver.artifacts.model import Artifact, ArtifactDiff, ArtifactFiles
from apiserver.artifacts.observed import Consumer, Source
from apiserver.artifacts.shown import API_VERSION, KIND
from apiserver.artifacts.surveying import Remembered, Survey
from apiserver.resource import Parameter, Resource, Subresource
from apiserver.view import View
from apiserver.watches import Part, Watches
from crds import HELM_CHART, HELM_RELEASE, KUSTOMIZATION
from crds.kind import Kind
from toolkit.artifact import scratch
from toolkit.artifact.index import AUDIENCE
from toolkit.kube.informer import Change
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.objects import GroupVersionKind

_APPLIERS: Final[tuple[tuple[Kind[Any], Callable[[bytes], Consumer]], ...]] = (
    (KUSTOMIZATION, observed.kustomization),
    (HELM_RELEASE, observed.helm_release),
)
"""The kinds that use artifacts, and their decoders."""
PERMISSIONS: Final = (
    # The sources; the artifact server requires `list` on sources, too.
    Rule(
        groups=(observed.SOURCES[0].group,),
        resources=tuple(kind.plural for kind in observed.SOURCES),
        verbs=("get", "list", "watch"),
    ),
    # The users of artifacts.
    *(
        Rule(groups=(kind.group,), resources=(kind.plural,), verbs=("get", "list", "watch"))
        for kind, _ in _APPLIERS
    ),
)
# A token for itself, to ask the artifact server what there is.
NAMESPACE_PERMISSIONS: Final = owntoken.PERMISSIONS


def artifacts(manager: Manager, options: Options, watches: Watches) -> Resource:
    """Wire the resource into the manager."""
    own = hosts.own(options.storage_adv_addr, manager.namespace)
    view = View(kind=KIND, api_version=API_VERSION, tag=secrets.randbelow(1000))
    fetch: asyncio.Future[blobs.Blobs] = asyncio.get_running_loop().create_future()
    token = Remembered(owntoken.of(manager, AUDIENCE))
    survey = Survey(session=lambda: fetch.result().session, token=token)
    catalog = Catalog(view, ours=own.has, survey=survey.look)
    parts = _parts(watches, catalog)
    for part in parts:
        view.follow(part)

    async def complete() -> None:
        started = await origin.mark(
            manager.client, namespace=manager.namespace, identity=manager.identity
        )
        await asyncio.gather(*(part.wait_synced() for part in parts))
        catalog.flush()
        view.complete(started=started)
        await catalog.run()

    async def serve() -> None:
        hosts = own | Hosts.of(options.artifact_hosts)
        async with blobs.opened(hosts, scratch.parent()) as found:
            fetch.set_result(found)
            await survey.run(catalog)

    manager.add_service(serve)
    manager.add_service(complete)
    files = Files(catalog, fetch)
    return Resource(
        kind=KIND,
        plural="artifacts",
        singular="artifact",
        short_names=("art",),
        model=Artifact,
        columns=COLUMNS,
        fields=FIELDS,
        view=view,
        subresources=_subresources(Content(catalog, fetch), files, Diff(catalog, files)),
    )


def _parts(watches: Watches, catalog: Catalog) -> tuple[Part[Any], ...]:
    """Watch all kinds of sources, and their users."""
    found: list[Part[Any]] = []
    for kind in observed.SOURCES:
        if kind is not HELM_CHART:
            sources = watches.follow(GroupVersionKind(*kind.gvk), _reader(kind))
            sources.subscribe(catalog.source)
            found.append(sources)
    charts = watches.follow(GroupVersionKind(*HELM_CHART.gvk), observed.chart)

    def both(change: Change[tuple[Source, Consumer]]) -> None:
        old, new = change.old or (None, None), change.new or (None, None)
        catalog.source(Change(change.type, change.key, old[0], new[0]))
        catalog.consumer(Change(change.type, change.key, old[1], new[1]))

    charts.subscribe(both)
    for kind, read in _APPLIERS:
        appliers = watches.follow(GroupVersionKind(*kind.gvk), read)
        appliers.subscribe(catalog.consumer)
        found.append(appliers)
    return (*found, charts)


def _reader(kind: Kind[Any]) -> Callable[[bytes], Source]:
    return lambda raw: observed.source(kind, raw)


def _subresources(content: Content, files: Files, diff: Diff) -> tuple[Subresource, ...]:
    return (
        Subresource(
            name="content",
            kind="Artifact",
            verbs=("get",),
            handle=content.handle,
            description="The file itself, with ranges; its digest is checked on the way.",
        ),
        Subresource(
            name="files",
            kind="ArtifactFiles",
            verbs=("get",),
            handle=files.handle,
            model=ArtifactFiles,
            bytes_with="path",
            parameters=(Parameter(name="path", description="The file whose content is wanted."),),
            description="The files in it; with ?path= the content of one.",
        ),
        Subresource(
            name="diff",
            kind="ArtifactDiff",
            verbs=("get",),
            handle=diff.handle,
            model=ArtifactDiff,
            parameters=(
                Parameter(
                    name="from",
                    required=True,
                    description="Revision, digest or name of another artifact of the source.",
                ),
            ),
            description="What changed since another artifact of the source, named by ?from=.",
        ),
    )
