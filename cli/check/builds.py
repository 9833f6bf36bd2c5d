"""The objects of a repository as its Kustomizations would apply them.

The namespace of a manifest depends on ``kustomization.yaml`` files and on the Kustomizations above
it. So every path in the repository is built with the engine, starting with the Kustomizations that
no other one applies. Objects that no build contains are taken as they are written, in the namespace
of the nearest ``kustomization.yaml``. No cluster is contacted: a variable without a known value
stays in the text, and the object counts as partial.
"""

import asyncio
import json
import posixpath
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from cli.check import files, origins, roles, subjects
from cli.check.subjects import Place, Subject
from controllers.kustomize import rendering
from crds import KUSTOMIZATION
from toolkit.errors import PenstockError
from toolkit.native import calls
from toolkit.native.pool import WorkerPool
from toolkit.objects import GroupVersionKind, Json, gvk_of
from toolkit.render import kustomize, substitute
from toolkit.turns import ALONE

_KIND: Final = GroupVersionKind(*KUSTOMIZATION.gvk)
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_BUILDS: Final = 5_000
_AT_ONCE: Final = 2
_Where: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Built:
    """The objects, messages about failed builds, and what is not checked with the reason."""

    subjects: list[Subject]
    failures: list[str]
    passed_over: list[str]


async def build(root: Path, written: Sequence[Subject], namespace: str, seconds: float) -> Built:
    """Return the objects that the Kustomizations among ``written`` apply, and the others.

    ``namespace`` is the default for manifests; ``seconds`` is the timeout of a build.
    """
    known = roles.read(root)
    written = [
        subjects.settled(each, files.namespace(root, each.place.file) or namespace)
        for each in written
        if known.holds_objects(each.place.file)
    ]
    own = _sources(root, written)
    pool = calls.start(size=_AT_ONCE, reads=(root,))
    try:
        builder = _Builder(pool, root, origins.Origins(written), own, namespace, seconds)
        applied = await _applied(builder, [each for each in written if _is(each)])
    finally:
        await pool.close()
    reached = {_where(each.place) for each in applied.subjects if each.place.file}
    left = [_as_written(each) for each in written if _where(each.place) not in reached]
    return replace(applied, subjects=subjects.unique([*left, *applied.subjects]))


def _as_written(subject: Subject) -> Subject:
    return replace(subject, partial="${" in json.dumps(subject.obj.get("spec")))


async def _applied(builder: "_Builder", written: Sequence[Subject]) -> Built:
    """Build downwards from the Kustomizations that no other one applies."""
    products = await asyncio.gather(*(builder.products(each) for each in written))
    below = {
        _where(made.place)
        for each, product in zip(written, products, strict=True)
        for made in product.subjects
        if made.place != each.place
    }
    roots = [each for each in written if _where(each.place) not in below]
    reached: set[_Where] = set()
    applied: list[Subject] = []
    failures, passed_over = set[str](), set[str]()
    # Those that apply each other in a circle have no root: each is one that is not reached yet.
    for start in [*roots, *(each for each in written if _where(each.place) in below)]:
        if _where(start.place) in reached:
            continue
        reached.add(_where(start.place))
        async for product in _downwards(builder, start):
            applied += product.subjects
            reached.update(_where(made.place) for made in product.subjects)
            failures.update(filter(None, [product.failure]))
            passed_over.update(filter(None, [product.passed_over]))
    return Built(applied, sorted(failures), sorted(passed_over))


async def _downwards(builder: "_Builder", start: Subject) -> AsyncIterator["_Product"]:
    queue, seen = deque([start]), set()
    while queue:
        product = await builder.products(queue.popleft())
        yield product
        for made in product.subjects:
            mark = (*made.ref.identity, json.dumps(made.obj.get("spec"), sort_keys=True))
            if _is(made) and mark not in seen:
                seen.add(mark)
                queue.append(made)


@dataclass(frozen=True, slots=True)
class _Product:
    """What a Kustomization applies, or why the build failed, or why it is not known."""

    subjects: Sequence[Subject] = ()
    failure: str = ""
    passed_over: str = ""


class _Builder:
    """Builds Kustomizations, each spec once."""

    def __init__(  # noqa: PLR0913, PLR0917 - the inputs of a build
        self,
        pool: WorkerPool,
        root: Path,
        written: origins.Origins,
        own: frozenset[tuple[str, str]],
        namespace: str,
        seconds: float,
    ) -> None:
        self._pool, self._root, self._origins, self._own = pool, root, written, own
        self._namespace, self._seconds = namespace, seconds
        self._known: dict[str, asyncio.Task[_Product]] = {}

    async def products(self, holder: Subject) -> _Product:
        """Return the objects of our kinds that a Kustomization of this repository applies."""
        holder = subjects.settled(holder, self._namespace)
        path = _path(holder.obj)
        elsewhere = self._elsewhere(holder, path)
        if elsewhere:
            return _Product(passed_over=f"{holder.ref}: {elsewhere}")
        spec = holder.obj["spec"]
        plan = {name: spec[name] for name in rendering.TRANSFORMATIONS if spec.get(name)}
        mark = json.dumps([path, plan, spec.get("postBuild"), holder.ref.namespace], sort_keys=True)
        if mark not in self._known and len(self._known) >= _MOST_BUILDS:
            return _Product(passed_over=f"{holder.ref}: there are more than {_MOST_BUILDS} builds")
        if mark not in self._known:
            made = self._build(holder, path, plan, spec.get("postBuild"))
            self._known[mark] = asyncio.create_task(made)
        found = await self._known[mark]
        return _Product(
            subjects=[replace(each, by=holder.ref.key) for each in found.subjects],
            failure=found.failure and f"{holder.ref} cannot be built: {found.failure}",
        )

    def _elsewhere(self, holder: Subject, path: str) -> str:
        """Return why a Kustomization cannot be built from this repository; empty if it can."""
        kind, name = _source(holder.obj)
        if (kind, name) not in self._own:
            return f"its source, {kind} {name}, is not this repository, as far as its paths tell"
        if not _is_directory(self._root, path):
            return f"spec.path: there is no directory {path or '.'} in this repository"
        return ""

    async def _build(self, holder: Subject, path: str, plan: Json, post: Any) -> _Product:
        wanted = kustomize.Build(
            mounts={"": self._root}, path=f"./{path}", transformations=origins.asked(plan)
        )
        try:
            built = await kustomize.build(self._pool, wanted, flow=ALONE, timeout=self._seconds)
            plain = [each for each in built.objects if subjects.ours(each)]
            objects = await self._substituted(plain, post) if isinstance(post, dict) else plain
        except PenstockError as exc:
            return _Product(failure=str(exc))
        return _Product(
            subjects=[
                subjects.settled(
                    Subject(
                        obj=origins.without(obj, plan),
                        place=self._origins.place(before, path),
                        partial=isinstance(post, dict) and "${" in json.dumps(obj),
                    ),
                    holder.ref.namespace,
                )
                for before, obj in zip(plain, objects, strict=True)
            ]
        )

    async def _substituted(self, objects: Sequence[Json], post: Json) -> Sequence[Json]:
        given = post.get("substitute")
        known = {k: str(v) for k, v in given.items()} if isinstance(given, dict) else {}
        if not known and not post.get("substituteFrom"):
            return objects
        # Variables that only the cluster knows stay unchanged.
        names = set(_VARIABLE.findall(json.dumps(objects))) - known.keys()
        return await substitute.substitute(
            self._pool,
            objects,
            known | {name: f"${{{name}}}" for name in names},
            strict=False,
            always=True,
            flow=ALONE,
            timeout=self._seconds,
        )


def _sources(root: Path, written: Iterable[Subject]) -> frozenset[tuple[str, str]]:
    """Return kind and name of the sources that are this repository.

    Those are the ones of which some Kustomization builds a directory that is here. A path of the
    root alone does not tell, because every repository has one.
    """
    found = [each.obj for each in written if _is(each)]
    return frozenset(
        _source(obj)
        for obj in found
        if (path := _path(obj)) not in {"", "."} and _is_directory(root, path)
    )


def _is(subject: Subject) -> bool:
    return gvk_of(subject.obj).group_kind == _KIND.group_kind


def _spec(obj: Json) -> Json:
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}


def _path(obj: Json) -> str:
    # As in the engine, ".." at the root stays at the root.
    return posixpath.normpath(f"/{_spec(obj).get('path') or ''}").lstrip("/")


def _source(obj: Json) -> tuple[str, str]:
    source = _spec(obj).get("sourceRef")
    named = source if isinstance(source, dict) else {}
    return str(named.get("kind") or ""), str(named.get("name") or "")


def _is_directory(root: Path, path: str) -> bool:
    try:
        target = (root / path).resolve()
        return target.is_relative_to(root.resolve()) and target.is_dir()
    except (OSError, ValueError):
        return False


def _where(place: Place) -> _Where:
    return place.file, place.line, place.document
