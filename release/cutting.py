"""A release from one command: what users get, made of one commit, signed, and told by checksum.

1. Refuse a tree with changes that no commit has, and a version that another commit has.
2. Write the version and the changelog, generate what follows from them, commit. A tree that has the
   version and its section already is left as it is, so a release that broke off is run again.
3. Make wheel, image, chart, manifests and lists of materials. The same commit gives the same bytes.
4. Push image and chart, if a registry is given. A tag that has another content is refused before
   anything is pushed.
5. Sign files, image and chart, if a key is given.

The commit is not pushed and no Git tag is made: that is the maintainer's word (docs/releasing.md).
"""

import asyncio
import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from cli import output
from cli.installing import manifests
from release import (
    building,
    charts,
    interpreter,
    platformwheel,
    product,
    progress,
    publishing,
    trees,
    versioning,
)
from release.errors import ReleaseError
from release.publishing import Blob, Repository
from release.signing import Signer
from release.trees import Node
from toolkit import untrusted
from toolkit.apply import order
from toolkit.kube import rbac

_MAX_MANIFEST: Final = 1 << 20
CHECKSUMS: Final = "SHA256SUMS"
_IMAGE: Final = "penstock"
_CHARTS: Final = "charts/penstock"
_GENERATORS: Final = (
    ("crds", "generate"),
    ("controllers.rbac", "generate"),
    ("webhooks", "generate"),
    ("apiserver", "generate"),
    ("cli.reference", "generate"),
    ("cli.chart", "generate"),
)
"""Those of ``make generate``, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to release; ``registry`` is the place of the repositories ``penstock`` and others."""

    version: str
    date: str
    directory: Path
    registry: str = ""
    plain_http: bool = False
    key: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushable:
    """What goes to a registry: a manifest, and what it points to."""

    repository: Repository
    tag: str
    manifest: bytes
    blobs: Sequence[Blob]


def cut(wish: Wish) -> Mapping[str, bytes]:
    """Make the release; return its files, which are in the directory as well.

    Raises:
        ReleaseError: it cannot be made from this tree, or may not; the message says what to do.
        UnavailableError: something cannot be downloaded, or the registry cannot be reached.
        StalledError: the engine cannot be built.
    """
    versioning.require(wish.version)
    signer = Signer.load(wish.key) if wish.key else None
    require_clean()
    _require_new(wish.version)
    _prepare(wish)
    image = building.build(interpreter.of_this_machine())
    files = _files(wish, image)
    publish(_pushables(wish, image, files), signer)
    if signer:
        files |= {f"{name}.sig": signer.blob(content) for name, content in files.items()}
        files["cosign.pub"] = signer.public()
    wish.directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (wish.directory / name).write_bytes(content)
    return files


def require_clean(root: Path = product.ROOT) -> None:
    """Require a tree that is a commit.

    Raises:
        ReleaseError: it has changes; names the first.
    """
    changed = _git("status", "--porcelain", root=root).splitlines()
    if changed:
        raise ReleaseError(f"{changed[0][3:]} is not committed: commit or stash what is changed")


def _require_new(version: str) -> None:
    tag = f"v{version}"
    if not _git("tag", "--list", tag):
        return
    if _git("rev-parse", f"{tag}^{{commit}}") != _git("rev-parse", "HEAD"):
        raise ReleaseError(
            f"{tag} is released from another commit: choose a new version, or check {tag} out to"
            " make its files again"
        )


def _prepare(wish: Wish) -> None:
    """(2) Bring the tree to the version."""
    changelog = product.ROOT / versioning.CHANGELOG
    project = product.ROOT / versioning.PROJECT
    text = changelog.read_text()
    done = versioning.is_cut(text, wish.version)
    if done and versioning.read(project.read_text()) == wish.version:
        progress.say(f"{wish.version} is prepared")
        return
    if done:
        raise ReleaseError(
            f"{versioning.CHANGELOG} has a section {wish.version}, but the tree is another version:"
            " choose a new version"
        )
    progress.say(f"preparing {wish.version}")
    changed = versioning.cut(text, wish.version, wish.date)
    texts = {
        path: versioning.written(path, (product.ROOT / path).read_text(), wish.version)
        for path in versioning.PLACES
    }
    try:
        _commit({versioning.CHANGELOG: changed, **texts}, f"Release v{wish.version}")
    except BaseException:
        # The tree was clean, so all that is changed is ours.
        _git("add", "--all")
        _git("restore", "--source=HEAD", "--staged", "--worktree", ".")
        raise


def _commit(texts: Mapping[str, str], subject: str) -> None:
    for path, content in texts.items():
        (product.ROOT / path).write_text(content)
    for words in _GENERATORS:
        _run(sys.executable, "-m", *words)
    _git("add", "--all")
    _git("commit", "--quiet", f"--message={subject}")


def _files(wish: Wish, image: building.Image) -> dict[str, bytes]:
    """(3) Return the files of the release by name."""
    wheel = platformwheel.build()
    stem = f"penstock-{wish.version}"
    files = {
        wheel.name: wheel.content,
        f"{stem}-image-{image.architecture}.tar": image.packed.archive,
        f"{stem}-image-{image.architecture}.spdx.json": image.sbom,
        f"{stem}.tgz": charts.package(),
        f"{stem}-kustomize.tar": _kustomize(),
        f"{stem}-install.yaml": _install(wish),
    }
    rows = [f"{sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)]
    return {**files, CHECKSUMS: "".join(rows).encode()}


def _kustomize() -> bytes:
    """Return the manifests for overlays, with the definitions that they refer to."""
    roots = [*(f"deploy/{name}" for name in platformwheel.MANIFESTS), "crds/yaml"]
    return trees.archive(
        {
            str(path.relative_to(product.ROOT)): Node(content=path.read_bytes())
            for root in roots
            for path in product.ROOT.joinpath(root).rglob("*")
            if path.is_file()
        }
    )


def _install(wish: Wish) -> bytes:
    """Return what ``penstock install --export`` prints."""
    name = f"{wish.registry}/{_IMAGE}:v{wish.version}" if wish.registry else ""
    objects = asyncio.run(manifests.build(manifests.Choice(namespace=rbac.NAMESPACE, image=name)))
    ordered = [obj for stage in order.stages(objects) for obj in stage.objects]
    return "---\n".join(map(output.to_yaml, ordered)).encode()


def _pushables(wish: Wish, image: building.Image, files: Mapping[str, bytes]) -> Sequence[Pushable]:
    if not wish.registry:
        return ()
    chart = charts.blobs(files[f"penstock-{wish.version}.tgz"])
    return (
        layout(
            image.packed.archive,
            Repository(f"{wish.registry}/{_IMAGE}", plain_http=wish.plain_http),
            f"v{wish.version}",
        ),
        packaged(
            *chart,
            Repository(f"{wish.registry}/{_CHARTS}", plain_http=wish.plain_http),
            wish.version,
        ),
    )


def layout(archive: bytes, repository: Repository, tag: str) -> Pushable:
    """Return what to push of an OCI layout that holds one image."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        found = {
            member.name: file.read()
            for member in opened
            if (file := opened.extractfile(member)) is not None
        }
    index = _read(found["index.json"])

    def blob(descriptor: Mapping[str, str]) -> Blob:
        path = f"blobs/{descriptor['digest'].replace(':', '/')}"
        return Blob(media_type=descriptor["mediaType"], content=found[path])

    manifest = blob(index["manifests"][0]).content
    parts = _read(manifest)
    blobs = [blob(each) for each in (parts["config"], *parts["layers"])]
    return Pushable(repository=repository, tag=tag, manifest=manifest, blobs=blobs)


def _read(content: bytes) -> Mapping[str, Any]:
    return untrusted.load_json(content, dict[str, Any], size=_MAX_MANIFEST)


def packaged(config: Blob, content: Blob, repository: Repository, tag: str) -> Pushable:
    """Return what to push of a chart."""
    manifest = publishing.manifest(config, [content])
    return Pushable(repository=repository, tag=tag, manifest=manifest, blobs=[config, content])


def publish(pushables: Sequence[Pushable], signer: Signer | None) -> None:
    """(4, 5) Push everything, signed; nothing where one tag has another content.

    Raises:
        ReleaseError: a tag has another content, or the registry refuses.
        UnavailableError: the registry cannot be reached.
    """
    for each in pushables:
        each.repository.require_free(each.tag, publishing.digest(each.manifest))
    for each in pushables:
        _push(each, signer)


def _push(pushable: Pushable, signer: Signer | None) -> None:
    digest = pushable.repository.push(pushable.tag, pushable.manifest, pushable.blobs)
    progress.say(f"{pushable.repository.name}:{pushable.tag} is {digest}")
    if signer:
        pushable.repository.sign(digest, signer)


def _git(*words: str, root: Path = product.ROOT) -> str:
    return _run("git", *words, root=root).strip("\n")


def _run(*command: str, root: Path = product.ROOT) -> str:
    answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ReleaseError(f"`{' '.join(command)}` failed:\n{answer.stderr.strip()}")
    return answer.stdout
