"""Plans, asked of the controller that makes them: what they tell, whom, and what they keep."""

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import yaml
from yarl import URL

from controllers.kustomize.planserver import AUDIENCE
from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    Space,
    config_map,
    revision_of,
)
from tests.e2e.decryption import SOPS, assert_unseen, encrypted, give_keys
from tests.tools import rights
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

PENSTOCK = "penstock-system"


@dataclass(frozen=True)
class Answer:
    """What the controller said."""

    status: int
    body: Json

    @property
    def changes(self) -> dict[str, Json]:
        """Return what would change, by kind and name."""
        return {f"{one['kind']}/{one['name']}": one for one in self.body["changes"]}


def token(space: Space, account: str, *, audience: str = AUDIENCE, namespace: str = "") -> str:
    """Return a token of an account of the space, or of another namespace."""
    words = [f"--audience={audience}"] if audience else []
    where = namespace or space.namespace
    return space.world.plane.kubectl("create", "token", account, "-n", where, *words).strip()


async def reader(space: Space, name: str = "reader") -> str:
    """Make an account that may ask for plans in the space; return its token."""
    kubectl, where = space.world.plane.kubectl, space.namespace
    kubectl("create", "serviceaccount", name, "-n", where)
    rule: Json = {
        "apiGroups": ["gitops.penstock.dev"],
        "resources": ["inventories/plan"],
        "verbs": ["get"],
    }
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": where},
        "rules": [rule],
    }
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump(role))
    subject = f"--serviceaccount={where}:{name}"
    kubectl("create", "rolebinding", name, "-n", where, f"--role={name}", subject)
    user = f"system:serviceaccount:{where}:{name}"
    await rights.noticed(space.world.api, user, rule, namespace=where)
    return token(space, name)


async def ask(space: Space, bearer: str, *, path: str = "", **query: str) -> Answer:
    """Ask for a plan of the Kustomization ``app``."""
    address = space.world.stack.plan_address
    where = path or f"/plan/{space.namespace}/app"
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}{where}", params=query, headers=headers) as response,
    ):
        text = await response.text()
        return Answer(response.status, json.loads(text) if text.startswith("{") else {"text": text})


async def fetch(space: Space, revision: str) -> None:
    """Have the source fetched, and wait until it has a commit."""
    stamp = str(time.time_ns())
    notes = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": stamp}}}
    await space.world.api.patch(GIT_REPOSITORY, "app", space.namespace, notes, strategy="merge")
    await space.ready(GIT_REPOSITORY, revision=revision)


async def start(space: Space, files: Mapping[str, str | bytes], **spec: Any) -> str:
    """Apply an application; return its revision."""
    repository = space.repository()
    repository.commit(files)
    await space.world.apply(space.source(repository), space.kustomization(**spec))
    return revision_of(await space.ready())


def secret(name: str, **data: str) -> str:
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
    )


async def test_a_plan_tells_what_would_change_and_changes_nothing(space: Space) -> None:
    await start(space, {"a.yaml": config_map("a", v="1"), "b.yaml": config_map("b", v="1")})
    await space.suspend()
    repository = space.repositories[0]
    commit = repository.commit(
        {"a.yaml": config_map("a", v="2"), "b.yaml": None, "c.yaml": config_map("c", v="1")}
    )
    await fetch(space, commit)
    before = await space.get(CONFIG_MAP, "a")

    answer = await ask(space, await reader(space))

    assert answer.status == 200, answer.body
    assert {name: one["action"] for name, one in answer.changes.items()} == {
        "ConfigMap/a": "configured",
        "ConfigMap/b": "deleted",
        "ConfigMap/c": "created",
    }
    assert answer.changes["ConfigMap/a"]["differences"] == [
        {"action": "changed", "path": "data.v", "before": '"1"', "after": '"2"'}
    ]
    assert commit in answer.body["revision"]
    assert (await space.get(CONFIG_MAP, "a"))["metadata"] == before["metadata"]
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "c")


async def test_what_is_as_it_should_be_is_counted(space: Space) -> None:
    await start(space, {"a.yaml": config_map("a", v="1")})

    answer = await ask(space, await reader(space))

    assert (answer.status, answer.body["unchanged"], answer.body["changes"]) == (200, 1, [])


async def test_a_stored_revision_can_be_planned_and_no_other(space: Space) -> None:
    first = await start(space, {"a.yaml": config_map("a", v="1")})
    second = space.repositories[0].commit({"a.yaml": config_map("a", v="2")})
    await fetch(space, second)
    await space.ready(revision=second)
    bearer = await reader(space)

    back = await ask(space, bearer, revision=first)
    unknown = await ask(space, bearer, revision="main@sha1:" + "0" * 40)

    assert back.status == 200, back.body
    assert back.body["revision"] == first
    assert back.changes["ConfigMap/a"]["differences"][0]["after"] == '"1"'
    assert unknown.status == 404
    assert first in unknown.body["message"]


async def test_no_plan_shows_a_secret(space: Space) -> None:
    old, new, word = (f"word-{secrets.token_hex(8)}" for _ in range(3))
    token_of_old = f"jwt-{secrets.token_hex(200)}"
    space.world.plane.kubectl(
        *("-n", space.namespace, "create", "secret", "generic", "vars"),
        f"--from-literal=WORD={word}",
        f"--from-literal=TOKEN={token_of_old}",
    )
    await start(
        space,
        {
            "s.yaml": secret("s", password=old, gone=old),
            "c.yaml": config_map("c", text="before"),
            "d.yaml": config_map("d", v="1"),
            "e.yaml": config_map("e", v="1", gone="${TOKEN}"),
            "f.yaml": config_map("f", v="1", gone="x" * 190 + " ${WORD} " + "y" * 300),
        },
        postBuild={"substituteFrom": [{"kind": "Secret", "name": "vars"}]},
    )
    await space.suspend()
    long = "x" * 190 + " ${WORD} " + "y" * 300
    commit = space.repositories[0].commit(
        {
            "s.yaml": secret("s", password=new),
            "t.yaml": secret("t", password=new),
            "c.yaml": config_map("c", text=long, other="${WORD}"),
            "d.yaml": config_map("d", v="2"),
            "e.yaml": config_map("e", v="2"),
            "f.yaml": config_map("f", v="2"),
        }
    )
    await fetch(space, commit)

    answer = await ask(space, await reader(space))

    assert answer.status == 200, answer.body
    assert {"Secret/s", "Secret/t", *(f"ConfigMap/{name}" for name in "cdef")} == set(
        answer.changes
    )
    told = json.dumps(answer.body)
    log = space.world.stack.log("kustomize").read_text()
    for hidden in (old, new, word, word[:8], token_of_old[:16]):
        assert hidden not in told
        assert hidden not in log
    assert {one["path"] for one in answer.changes["Secret/s"]["differences"]} == {
        "data.password",
        "data.gone",
    }
    assert answer.changes["ConfigMap/d"]["differences"][0]["after"] == '"2"'


async def test_no_plan_shows_what_was_encrypted(space: Space) -> None:
    """A Secret that is decrypted at admission, and an encrypted patch of a ConfigMap."""
    sops, old, new = Reference(), *(f"word-{secrets.token_hex(8)}" for _ in range(2))
    await give_keys(space, sops.secret)
    kustomization = {"resources": ["s.yaml", "c.yaml"], "patches": [{"path": "p.yaml"}]}

    def files(word: str) -> dict[str, str | bytes]:
        return {
            "kustomization.yaml": yaml.safe_dump(kustomization),
            "s.yaml": encrypted(sops, yaml.safe_load(secret("s", password=word))),
            "c.yaml": config_map("c", plain="1"),
            "p.yaml": encrypted(sops, yaml.safe_load(config_map("c", patched=word))),
        }

    await start(space, files(old), decryption=SOPS)
    await space.suspend()
    same = await ask(space, await reader(space))
    commit = space.repositories[0].commit(files(new))
    await fetch(space, commit)

    answer = await ask(space, token(space, "reader"))

    assert (same.status, same.changes, same.body["unchanged"]) == (200, {}, 2)
    assert answer.status == 200, answer.body
    assert answer.changes["ConfigMap/c"]["differences"] == [
        {"action": "changed", "path": "data.patched"}
        | {"before": "*** (before)", "after": "*** (after)"}
    ]
    assert "data.password" in json.dumps(answer.changes["Secret/s"])
    for word in (old, new):
        assert word not in json.dumps(answer.body)
        await assert_unseen(space, word)


async def test_a_plan_sees_no_more_than_the_account_of_the_kustomization(space: Space) -> None:
    kubectl, other = space.world.plane.kubectl, f"{space.namespace}-other"
    kubectl("create", "namespace", other)
    kubectl("create", "configmap", "theirs", "-n", other, "--from-literal=v=confidential")
    kubectl("create", "serviceaccount", "tenant", "-n", space.namespace)
    binding = f"--serviceaccount={space.namespace}:tenant"
    kubectl(
        *("create", "rolebinding", "tenant", "-n", space.namespace),
        *("--clusterrole=admin", binding),
    )
    await start(space, {"a.yaml": config_map("a", v="1")}, serviceAccountName="tenant")
    await space.suspend()
    theirs = yaml.safe_load(config_map("theirs", v="1"))
    theirs["metadata"]["namespace"] = other
    kubectl(
        *("-n", space.namespace, "patch", "kustomizations.kustomize.toolkit.fluxcd.io", "app"),
        *("--type=json", "-p", '[{"op":"remove","path":"/spec/targetNamespace"}]'),
    )
    mine = yaml.safe_load(config_map("a", v="1"))
    mine["metadata"]["namespace"] = space.namespace
    commit = space.repositories[0].commit(
        {"a.yaml": yaml.safe_dump(mine), "theirs.yaml": yaml.safe_dump(theirs)}
    )
    await fetch(space, commit)

    answer = await ask(space, await reader(space))

    assert answer.status == 200, answer.body
    assert answer.changes["ConfigMap/theirs"]["action"] == "refused"
    assert "confidential" not in json.dumps(answer.body)
    assert "forbidden" in answer.changes["ConfigMap/theirs"]["message"]
    kubectl("delete", "namespace", other, "--wait=false")


async def test_who_may_not_ask_learns_nothing(space: Space) -> None:
    await start(space, {"a.yaml": config_map("a", v="1")})
    kubectl = space.world.plane.kubectl
    kubectl("create", "serviceaccount", "nobody", "-n", space.namespace)
    allowed = await reader(space)
    missing = f"/plan/{space.namespace}/missing"
    elsewhere = f"/plan/{PENSTOCK}/app"

    refused = {
        "no token": (await ask(space, "")).status,
        "nonsense": (await ask(space, "nonsense")).status,
        "another audience": (await ask(space, token(space, "reader", audience="x"))).status,
        "the API server's": (await ask(space, token(space, "reader", audience=""))).status,
        "no right": (await ask(space, token(space, "nobody"))).status,
        "no right, missing": (await ask(space, token(space, "nobody"), path=missing)).status,
        "another namespace": (await ask(space, allowed, path=elsewhere)).status,
        "missing": (await ask(space, allowed, path=missing)).status,
    }

    assert refused == {
        "no token": 401,
        "nonsense": 401,
        "another audience": 401,
        "the API server's": 401,
        "no right": 403,
        "no right, missing": 403,
        "another namespace": 403,
        "missing": 404,
    }
    assert (await ask(space, allowed)).status == 200


@pytest.mark.parametrize("name", ["..%2f..%2fapp", "%2e%2e", "APP", "a%00b", "app%2fstatus", "-"])
async def test_paths_that_name_no_object_lead_nowhere(space: Space, name: str) -> None:
    bearer = await reader(space)

    url = URL(
        f"http://{space.world.stack.plan_address}/plan/{space.namespace}/{name}", encoded=True
    )
    headers = {"Authorization": f"Bearer {bearer}"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        assert response.status == 404


async def test_a_build_that_fails_says_why(space: Space) -> None:
    await start(space, {"a.yaml": config_map("a", v="1")})
    commit = space.repositories[0].commit({"kustomization.yaml": "resources: [missing.yaml]\n"})
    await fetch(space, commit)

    answer = await ask(space, await reader(space))

    assert answer.status == 422
    assert "missing.yaml" in answer.body["message"]
    assert dig(answer.body, "reason") == "BuildFailed"
