"""Every kind that Penstock reconciles or decides by is known to ``penstock check``."""

import asyncio
from pathlib import Path

import pytest
import yaml
from msgspec import Struct

from cli.check import cluster, files, judge
from crds import KINDS
from crds.kind import Kind
from tests.fakes.apiserver import FakeApiServer
from toolkit.kube.options import Options
from toolkit.objects import Json
from toolkit.policy import references

VERSIONS = [
    (kind, version)
    for kind in KINDS
    for version in (kind.version, *(old.version for old in kind.older), "v9")
]


def written(kind: Kind[Struct], version: str) -> Json:
    metadata = {"name": "it", "namespace": "apps"} if kind.namespaced else {"name": "it"}
    return {
        "apiVersion": f"{kind.group}/{version}",
        "kind": kind.kind,
        "metadata": metadata,
        "spec": {},
    }


@pytest.mark.parametrize(
    ("kind", "version"), VERSIONS, ids=[f"{each.kind}-{version}" for each, version in VERSIONS]
)
def test_a_manifest_of_every_kind_and_version_is_judged(
    kind: Kind[Struct], version: str, tmp_path: Path
) -> None:
    (tmp_path / "it.yaml").write_text(yaml.safe_dump(written(kind, version)))

    found = files.read(tmp_path)
    policy = references.under(lambda _: (), Options())
    rules = {each.rule for each in judge.Judge(policy=policy).judge(found.subjects)}

    assert [str(each.ref.gvk.kind) for each in found.subjects] == [kind.kind]
    assert not found.others
    assert ("version-unknown" in rules) is (version == "v9")


def test_objects_of_every_kind_are_read_from_a_cluster() -> None:
    server = FakeApiServer()
    for kind in KINDS:
        server.kinds[kind.group, kind.version, kind.plural] = kind.kind
        server.put(kind.plural, "it", "apps", spec={})

    async def read() -> cluster.Found:
        async with server.running() as api:
            return await cluster.read(api)

    kinds = {each.ref.gvk.kind for each in asyncio.run(read()).subjects}

    assert kinds == {kind.kind for kind in KINDS}
