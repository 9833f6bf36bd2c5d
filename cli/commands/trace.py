"""``penstock trace``: find the commit from which an object in the cluster comes.

The path up: owner references (a Pod has no owner labels, its Deployment does), then the labels
``<applier's group>/{name,namespace}``, then the applier's sources.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from cli import (
    errors,
    examples,
    kindtree,
    loading,
    origins,
    output,
    selectors,
    session,
    status,
    terminal,
)
from crds import KINDS
from toolkit.kube import errors as kube_errors
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig, gvk_of, key_of

if TYPE_CHECKING:
    from toolkit.kube import client, mapper
else:
    mapper = loading.Later("toolkit.kube.mapper")

_CLIMB: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """An object, its applier, and the sources of the applier; None if unknown."""

    object: ObjectRef
    applier: Json | None
    sources: tuple[Json, ...]

    def told(self) -> Json:
        """Return the JSON for ``-o json``."""
        applier = output.without_managed_fields(self.applier) if self.applier else None
        return {
            "object": {
                "apiVersion": self.object.gvk.api_version,
                "kind": self.object.gvk.kind,
                "namespace": self.object.namespace,
                "name": self.object.name,
            },
            "applier": applier,
            "sources": [output.without_managed_fields(source) for source in self.sources],
        }


@click.command(
    "trace",
    no_args_is_help=True,
    epilog=examples.example(
        "penstock trace deployment/web -n apps",
        "penstock trace deployment/web service/web configmap/web -n apps",
    ),
)
@click.argument("words", nargs=-1, metavar="KIND/NAME... | KIND NAME...")
@click.option("--kind", default="", help="Kind of the objects; the arguments are then names.")
@click.option(
    "--api-version",
    default="",
    help="API version of the object, such as apps/v1, if several have the kind.",
)
@click.option("-o", "--output", "fmt", type=click.Choice(("json", "yaml")), help="Output format.")
@session.options
def trace(
    words: tuple[str, ...], kind: str, api_version: str, *, fmt: str | None, **arguments: Any
) -> None:
    """Show where objects in the cluster come from."""
    named = [(kind, word) for word in words] if kind else selectors.several(words)

    async def work(opened: session.Session) -> list[Trace]:
        found = []
        for word, name in named:
            resource = await resolve(opened.api, word, api_version)
            namespace = opened.namespace if resource.namespaced else ""
            found.append(await gather(opened.api, ObjectRef(resource.gvk, namespace, name)))
        return found

    traces = session.run(session.connection(arguments), work)
    if fmt:
        told = [one.told() for one in traces]
        click.echo(output.encode(told[0] if len(told) == 1 else told, fmt), nl=False)
    else:
        click.echo(terminal.printable("\n".join(map(render, traces)), keep="\n"), nl=False)


async def resolve(api: "client.Client", word: str, api_version: str) -> "mapper.Resource":
    """Return the served kind for ``word``: a kind, plural, singular or short name."""
    known = kindtree.find(word)
    if known is not None and not api_version:
        return await api.mapper.resource(GroupVersionKind(*known.gvk))
    return await _discovered(api, word, api_version)


async def _discovered(api: "client.Client", word: str, api_version: str) -> "mapper.Resource":
    """Search discovery, because only the API server knows all short names."""
    wanted = word.lower()
    for path in ("/api", "/apis"):
        document = await api.request("GET", path, headers={"Accept": mapper.ACCEPT})
        for group in document.get("items") or ():
            found = _in_group(group, wanted, api_version)
            if found is not None:
                return await api.mapper.resource(found)
    raise errors.UsageError(
        f"the API server serves no kind {word!r}"
        + (f" in {api_version}" if api_version else "")
        + "; see `kubectl api-resources`"
    )


def _in_group(group: Json, wanted: str, api_version: str) -> GroupVersionKind | None:
    name = str(dig(group, "metadata", "name", default=""))
    for version in group.get("versions") or ():
        gvk = GroupVersionKind(name, str(version["version"]), "")
        if api_version not in ("", gvk.api_version):
            continue
        for row in version.get("resources") or ():
            kind = str(dig(row, "responseKind", "kind", default=""))
            plain = (kind, row.get("resource"), row.get("singularResource"))
            words = (*plain, *(row.get("shortNames") or ()))
            if wanted in {str(word).lower() for word in words}:
                return GroupVersionKind(gvk.group, gvk.version, kind)
    return None


async def gather(api: "client.Client", ref: ObjectRef) -> Trace:
    """Follow the object to its applier and on to its sources.

    Raises:
        UsageError: the object does not exist.
    """
    try:
        obj = await api.get(ref.gvk, ref.name, ref.namespace)
    except kube_errors.NotFoundError as exc:
        raise errors.UsageError(f"{ref} does not exist; is the --namespace right?") from exc
    owner = await _labelled(api, obj)
    applier = await _existing(api, owner) if owner else None
    sources = [each async for each in _sources(api, applier)] if applier else []
    return Trace(object=ref, applier=applier, sources=tuple(sources))


async def _labelled(api: "client.Client", obj: Json) -> ObjectRef | None:
    """Return the applier that the labels of the object, or of an owner of it, name."""
    for _ in range(_CLIMB):
        found = owner_of(obj)
        if found is not None:
            return found
        references = dig(obj, "metadata", "ownerReferences", default=())
        if not references:
            return None
        reference = next((row for row in references if row.get("controller")), references[0])
        gvk = GroupVersionKind.parse(reference["apiVersion"], reference["kind"])
        obj = await api.get(gvk, reference["name"], key_of(obj).namespace)
    return None


def owner_of(obj: Json) -> ObjectRef | None:
    """Return the applier that the object's own labels name."""
    labels = dig(obj, "metadata", "labels", default={})
    for kind in KINDS:
        name, namespace = (labels.get(f"{kind.group}/{part}") for part in ("name", "namespace"))
        if kindtree.APPLIERS in kind.categories and name and namespace:
            return ObjectRef(GroupVersionKind(*kind.gvk), str(namespace), str(name))
    return None


async def _existing(api: "client.Client", ref: ObjectRef) -> Json:
    """Return the object, or one with only a name where it is gone."""
    try:
        return await api.get(ref.gvk, ref.name, ref.namespace)
    except kube_errors.NotFoundError:
        metadata = {"name": ref.name, "namespace": ref.namespace}
        return {"apiVersion": ref.gvk.api_version, "kind": ref.gvk.kind, "metadata": metadata}


async def _sources(api: "client.Client", obj: Json) -> AsyncIterator[Json]:
    """Yield the sources of an object, and their sources."""
    for word, key in origins.references(obj):
        kind = kindtree.find(word)
        if kind is not None:
            ref = ObjectRef(GroupVersionKind(*kind.gvk), key.namespace, key.name)
            source = await _existing(api, ref)
            yield source
            if origins.derived(kind.kind):
                async for each in _sources(api, source):
                    yield each


def render(found: Trace) -> str:
    """Return the trace as blocks of ``Name: value`` lines, from the object upwards."""
    blocks = [_object_block(found.object)]
    if found.applier is None:
        blocks[0].append(("Status", "Not managed by Penstock"))
        return _blocks(blocks)
    blocks[0].append(("Status", f"Managed by {gvk_of(found.applier).kind}"))
    blocks.append(_applier_block(found.applier))
    blocks.extend(_source_block(source) for source in found.sources)
    return _blocks(blocks)


def _object_block(ref: ObjectRef) -> list[tuple[str, str]]:
    rows = [("Object", f"{ref.gvk.kind}/{ref.name}")]
    return [*rows, ("Namespace", ref.namespace)] if ref.namespace else rows


def _applier_block(obj: Json) -> list[tuple[str, str]]:
    return [
        (gvk_of(obj).kind, key_of(obj).name),
        ("Namespace", key_of(obj).namespace),
        ("Path", str(dig(obj, "spec", "path", default=""))),
        ("Target", str(dig(obj, "spec", "targetNamespace", default=""))),
        ("Revision", status.revision(obj)),
        *_ready_rows(obj),
    ]


def _source_block(obj: Json) -> list[tuple[str, str]]:
    reference = dig(obj, "spec", "ref", default={})
    rows = [(str(name).capitalize(), str(value)) for name, value in reference.items()]
    return [
        (gvk_of(obj).kind, key_of(obj).name),
        ("Namespace", key_of(obj).namespace),
        ("URL", str(dig(obj, "spec", "url", default=""))),
        ("Chart", str(dig(obj, "spec", "chart", default=""))),
        ("Version", str(dig(obj, "spec", "version", default=""))),
        *rows,
        ("Revision", status.revision(obj)),
        *_ready_rows(obj),
    ]


def _ready_rows(obj: Json) -> list[tuple[str, str]]:
    if not obj.get("spec"):
        return [("Status", "Not found in the cluster")]
    condition = status.condition(obj, "Ready")
    if not condition:
        return [("Status", "Unknown")]
    state = {"True": "Last reconciled", "False": "Last reconciliation failed"}.get(
        str(condition.get("status")), "Reconciling since"
    )
    rows = [
        ("Status", f"{state} at {condition.get('lastTransitionTime', 'an unknown time')}"),
        ("Message", str(condition.get("message", ""))),
    ]
    return [("Status", "Suspended"), *rows] if status.suspended(obj) else rows


def _blocks(blocks: Sequence[Sequence[tuple[str, str]]]) -> str:
    width = max(len(name) for block in blocks for name, _ in block) + 2
    texts = (
        "".join(f"{name + ':':<{width}}{value}\n" for name, value in block if value)
        for block in blocks
    )
    return "---\n".join(texts)
