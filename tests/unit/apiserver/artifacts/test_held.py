"""What status offers and what the store keeps become one artifact for each content."""

import pytest

from apiserver.artifacts import held as holding
from apiserver.artifacts.held import held
from apiserver.artifacts.observed import Offered, Source
from toolkit.artifact.index import Entry, Index
from toolkit.artifact.store import Owner

OWNER = Owner(kind="GitRepository", namespace="apps", name="web.site")
HERE = "gitrepository/apps/web.site"
NEW, OLD = "sha256:" + "b" * 64, "sha256:" + "a" * 64


def offered(digest: str = NEW, revision: str = "main@sha1:b", path: str = "") -> Offered:
    path = path or f"{HERE}/b.tar.gz"
    return Offered(
        digest=digest,
        revision=revision,
        path=path,
        url=f"http://store.example/{path}",
        last_update_time="2026-01-01T00:00:00Z",
        size=7,
        metadata={"who": "status"},
    )


def source(artifact: Offered | None, owner: Owner = OWNER) -> Source:
    return Source(
        owner=owner,
        api_version="source.toolkit.fluxcd.io/v1",
        uid="u",
        revision=1,
        artifact=artifact,
    )


def entry(file: str, digest: str, revision: str = "", expires: float | None = None) -> Entry:
    return Entry(
        file=file,
        digest=digest,
        size=3,
        modified=0.0,
        revision=revision,
        expires=expires,
        metadata={"who": "store"},
    )


def test_the_current_one_needs_no_store() -> None:
    (found,) = held(source(offered()), None, {}, ours=True)

    assert found.current
    assert (found.digest, found.size, found.revision) == (NEW, 7, "main@sha1:b")
    assert (found.file, found.path, found.backend) == ("b.tar.gz", f"{HERE}/b.tar.gz", "")
    assert found.name == "gitrepository.web.site." + "b" * 12


def test_the_store_adds_those_that_are_kept() -> None:
    index = Index(
        backend="bucket",
        artifacts=(
            entry("b.tar.gz", NEW, "main@sha1:b"),
            entry("a.tar.gz", OLD, "main@sha1:a", expires=60.0),
        ),
    )

    current, kept = held(source(offered()), index, {}, ours=True)

    assert (current.backend, current.metadata["who"], current.others) == ("bucket", "status", ())
    assert (kept.current, kept.revision, kept.metadata["who"]) == (False, "main@sha1:a", "store")
    assert kept.url == f"http://store.example/{HERE}/a.tar.gz"
    assert (kept.stored, kept.expires) == ("1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z")


def test_equal_contents_are_one_artifact() -> None:
    index = Index(
        backend="local",
        artifacts=(entry("b.tar.gz", NEW, "main@sha1:b"), entry("c.tar.gz", NEW, "main@sha1:c")),
    )

    (found,) = held(source(offered()), index, {}, ours=True)

    assert found.revisions == ("main@sha1:b", "main@sha1:c")


def test_a_revision_that_nobody_wrote_down_is_what_status_said() -> None:
    index = Index(backend="local", artifacts=(entry("a.tar.gz", OLD),))

    _, remembered = held(source(offered()), index, {OLD: "main@sha1:a"}, ours=True)
    _, forgotten = held(source(offered()), index, {}, ours=True)

    assert remembered.revision == "main@sha1:a"
    assert forgotten.revision == ""


def test_without_an_artifact_there_is_none() -> None:
    index = Index(backend="local", artifacts=(entry("a.tar.gz", OLD),))

    assert held(source(None), index, {}, ours=True) == ()


def test_a_status_that_names_a_neighbours_artifact_offers_none() -> None:
    stolen = offered(path="gitrepository/apps/other/b.tar.gz")

    assert held(source(stolen), None, {}, ours=True) == ()


def test_what_third_parties_serve_is_external() -> None:
    owner = Owner(kind="ExternalArtifact", namespace="apps", name="rows")
    index = Index(backend="local", artifacts=(entry("a.tar.gz", OLD),))

    (found,) = held(source(offered(path="x/y.tgz"), owner), index, {}, ours=False)

    assert (found.backend, found.file) == ("external", "y.tgz")


@pytest.mark.parametrize("digest", ["sha256:ABC=_-", "x:" + "z" * 64, "sha256:", "../../x"])
def test_a_strange_digest_makes_a_plain_name(digest: str) -> None:
    (found,) = held(source(offered(digest=digest)), None, {}, ours=True)

    last = found.name.rpartition(".")[2]
    assert len(last) == 12
    assert set(last) <= set("0123456789abcdef")


def test_an_artifact_is_found_by_name_digest_or_revision() -> None:
    index = Index(backend="local", artifacts=(entry("a.tar.gz", OLD, "main@sha1:a"),))
    both = held(source(offered()), index, {}, ours=True)

    for wanted in (both[1].name, OLD, "main@sha1:a"):
        assert holding.find(both, wanted) == (both[1],)
    assert holding.find(both, "main@sha1:x") == ()


def test_a_revision_with_two_contents_is_ambiguous() -> None:
    index = Index(backend="local", artifacts=(entry("a.tar.gz", OLD, "main@sha1:b"),))
    both = held(source(offered()), index, {}, ours=True)

    assert holding.find(both, "main@sha1:b") == both
