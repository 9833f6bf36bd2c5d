"""A protected namespace takes what a signed revision holds, all the way, and nothing else."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    DEADLINE,
    DEPLOYMENT,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    NAMESPACE,
    Space,
    config_map,
    deployment,
)
from tests.e2e.provenance import POLICY, change, made, refuses
from tests.e2e.sources import secret
from tests.testdata.signatures import generate
from tests.testdata.signatures.generate import Author
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import Json, dig
from toolkit.policy.provenance import BREAK_GLASS, LABEL

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Author]:
    with generate.authors(tmp_path_factory.mktemp("authors")) as made:
        yield made["ssh-ed25519"]


@pytest_asyncio.fixture(loop_scope="session")
async def production(space: Space) -> AsyncIterator[str]:
    """Make the namespace that is protected later, and Kustomizations apply to."""
    name = f"{space.namespace}-prod"
    await space.world.api.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    yield name
    if await space.world.exists(POLICY, "", name):
        await space.world.api.delete(POLICY, name)
    await space.world.api.delete(NAMESPACE, name)


async def protect(space: Space, namespace: str) -> None:
    """Admit only what is signed, and wait until that is known everywhere."""
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    policy: Json = {
        "apiVersion": POLICY.api_version,
        "kind": POLICY.kind,
        "metadata": {"name": namespace},
        "spec": {"namespaceSelector": selector, "origins": [{"verifiedBy": ".+"}]},
    }
    await space.world.apply(policy)
    await change(space, NAMESPACE, "", namespace, {"metadata": {"labels": {LABEL: "yes"}}})

    deadline = time.monotonic() + DEADLINE
    while not await refuses(space, namespace):
        assert time.monotonic() < deadline, "the namespace is not protected"
        await asyncio.sleep(0.05)


async def follow(space: Space, author: Author, production: str) -> None:
    """Make a signed source and an unsigned one, and a Kustomization of each into production."""
    trusted = {"verify": {"mode": "HEAD", "secretRef": {"name": "trusted"}}}
    signed, unsigned = space.repository("signed"), space.repository("unsigned")
    signed.commit({"good.yaml": config_map("good", a="1")}, sign=author.key)
    unsigned.commit({"bad.yaml": config_map("bad", a="1")})
    await space.world.apply(
        secret(space, "trusted", {"author.sshpub": author.public}),
        space.source(signed, "signed", **trusted),
        space.source(unsigned, "unsigned"),
        *(
            space.kustomization(
                name,
                targetNamespace=production,
                sourceRef={"kind": "GitRepository", "name": name},
                force=True,
                wait=True,
                timeout="1m",
            )
            for name in ("signed", "unsigned")
        ),
    )


async def test_a_signed_revision_is_applied_and_an_unsigned_one_refused(
    space: Space, author: Author, production: str
) -> None:
    await protect(space, production)

    await follow(space, author, production)

    await space.ready(GIT_REPOSITORY, name="signed")
    await space.ready(name="signed")
    refused = await space.refused(name="unsigned", saying="ConfigMap")
    message = next(
        row["message"] for row in refused["status"]["conditions"] if row["type"] == "Ready"
    )
    assert f"ConfigMap/{production}/bad may not be created by 'system:serviceaccount" in message
    assert (
        f"no signature of GitRepository/{space.namespace}/unsigned was verified"
        f" (ProvenancePolicy '{production}')"
    ) in message
    assert await space.world.exists(CONFIG_MAP, production, "good")
    assert not await space.world.exists(CONFIG_MAP, production, "bad")


async def test_every_write_of_a_kustomization_tells_where_it_comes_from(
    space: Space, author: Author, production: str
) -> None:
    world, name = space.world, "signed"
    # what kubectl made before is taken over,
    taken = {**made("taken", production, a="0"), "metadata": {"name": "taken"}}
    text = yaml.safe_dump(taken)
    world.plane.kubectl("apply", f"--namespace={production}", "-f", "-", stdin=text)
    await protect(space, production)
    await follow(space, author, production)
    signed = space.repositories[0]
    await space.ready(name=name)
    files = {
        "taken.yaml": config_map("taken", a="1"),
        "fixed.yaml": yaml.safe_dump(made("fixed", "", a="1") | {"immutable": True}),
        "web.yaml": deployment("web"),
    }
    commit = signed.commit(files, sign=author.key)
    await space.request(GIT_REPOSITORY, name)
    await space.ready(name=name, revision=commit)
    # what cannot be changed is recreated, a Deployment rolls, and what left the build is deleted,
    before = await world.api.get(CONFIG_MAP, "fixed", production)
    changed = {
        "fixed.yaml": yaml.safe_dump(made("fixed", "", a="2") | {"immutable": True}),
        "web.yaml": deployment("web", image="registry.example/app:2"),
        "good.yaml": None,
    }
    commit = signed.commit(changed, sign=author.key)
    await space.request(GIT_REPOSITORY, name)
    await space.ready(name=name, revision=commit)
    after = await world.api.get(CONFIG_MAP, "fixed", production)
    assert after["data"] == {"a": "2"}
    assert dig(after, "metadata", "uid") != dig(before, "metadata", "uid")
    await world.gone(CONFIG_MAP, production, "good")
    # drift is corrected,
    with pytest.raises(ForbiddenError, match=f"Kustomization/{space.namespace}/signed from"):
        await change(space, CONFIG_MAP, production, "taken", {"data": {"a": "drifted"}})
    until = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ} a test"
    note = {"metadata": {"annotations": {BREAK_GLASS: until}}}
    await change(space, NAMESPACE, "", production, note)
    await change(space, CONFIG_MAP, production, "taken", {"data": {"a": "drifted"}})
    await world.until(CONFIG_MAP, production, "taken", lambda obj: bool(obj["data"] == {"a": "1"}))
    await change(
        space, NAMESPACE, "", production, {"metadata": {"annotations": {BREAK_GLASS: None}}}
    )
    # and all of it goes with the Kustomization, even when its source is gone before.
    await world.api.delete(GIT_REPOSITORY, name, space.namespace)
    await world.gone(GIT_REPOSITORY, space.namespace, name)
    await world.api.delete(KUSTOMIZATION, name, space.namespace)
    await world.gone(KUSTOMIZATION, space.namespace, name)
    for gvk, each in ((CONFIG_MAP, "taken"), (CONFIG_MAP, "fixed"), (DEPLOYMENT, "web")):
        await world.gone(gvk, production, each)
