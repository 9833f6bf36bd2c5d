"""Plans, asked of the controller that makes them: what they tell, whom, and what they keep."""

import json
import secrets

import pytest
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    KUSTOMIZATION,
    NAMESPACE,
    Space,
    config_map,
)
from tests.e2e.decryption import SOPS, assert_unseen, encrypted, give_keys
from tests.e2e.plans import RBAC, account, ask, fetch, reader, secret, start, token
from tests.tools import rights
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

PENSTOCK = "penstock-system"
CONFIG_MAPS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}


def named(space: Space, manifest: str) -> Json:
    """Return an object with the namespace of the space."""
    obj: Json = yaml.safe_load(manifest)
    obj["metadata"]["namespace"] = space.namespace
    return obj


async def test_a_plan_tells_what_would_change_and_changes_nothing(space: Space) -> None:
    await start(space, {"a.yaml": config_map("a", v="1"), "b.yaml": config_map("b", v="1")})
    await space.suspend()
    bearer = await reader(space)
    same = await ask(space, bearer)
    repository = space.repositories[0]
    commit = repository.commit(
        {"a.yaml": config_map("a", v="2"), "b.yaml": None, "c.yaml": config_map("c", v="1")}
    )
    await fetch(space, commit)
    before = await space.get(CONFIG_MAP, "a")

    answer = await ask(space, bearer)

    assert (same.status, same.body["unchanged"], same.body["changes"]) == (200, 2, [])
    assert answer.status == 200, answer.body
    assert {name: one["action"] for name, one in answer.changes.items()} == {
        "ConfigMap/a": "drifted",
        "ConfigMap/b": "deleted",
        "ConfigMap/c": "created",
    }
    assert answer.changes["ConfigMap/a"]["differences"] == [
        {"action": "changed", "path": "data.v", "before": '"1"', "after": '"2"'}
    ]
    assert commit in answer.body["revision"]
    assert (await space.get(CONFIG_MAP, "a"))["metadata"] == before["metadata"]
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "c")


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
    await space.world.apply(named(space, secret("vars", WORD=word, TOKEN=token_of_old)))
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

    answer = await ask(space, await token(space, "reader"))

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
    other, metadata = f"{space.namespace}-other", {"name": "tenant", "namespace": space.namespace}
    theirs = yaml.safe_load(config_map("theirs", v="confidential"))
    theirs["metadata"]["namespace"] = other
    await account(space, "tenant")
    await space.world.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}},
        theirs,
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        },
    )
    user, rule = f"system:serviceaccount:{space.namespace}:tenant", CONFIG_MAPS
    await rights.noticed(space.world.api, user, rule, namespace=space.namespace)
    await start(space, {"a.yaml": config_map("a", v="1")}, serviceAccountName="tenant")
    await space.suspend()
    await space.world.api.patch(
        *(KUSTOMIZATION, "app", space.namespace, {"spec": {"targetNamespace": None}}),
        strategy="merge",
    )
    theirs["data"] = {"v": "1"}
    mine = named(space, config_map("a", v="1"))
    commit = space.repositories[0].commit(
        {"a.yaml": yaml.safe_dump(mine), "theirs.yaml": yaml.safe_dump(theirs)}
    )
    await fetch(space, commit)

    answer = await ask(space, await reader(space))

    assert answer.status == 200, answer.body
    assert answer.changes["ConfigMap/theirs"]["action"] == "refused"
    assert "confidential" not in json.dumps(answer.body)
    assert "forbidden" in answer.changes["ConfigMap/theirs"]["message"]
    await space.world.api.delete(NAMESPACE, other)


async def test_who_may_not_ask_learns_nothing(space: Space) -> None:
    await start(space, {"a.yaml": config_map("a", v="1")})
    await account(space, "nobody")
    allowed = await reader(space)
    missing = f"/plan/{space.namespace}/missing"
    elsewhere = f"/plan/{PENSTOCK}/app"

    refused = {
        "no token": (await ask(space, "")).status,
        "nonsense": (await ask(space, "nonsense")).status,
        "another audience": (await ask(space, await token(space, "reader", audience="x"))).status,
        "the API server's": (await ask(space, await token(space, "reader", audience=""))).status,
        "no right": (await ask(space, await token(space, "nobody"))).status,
        "no right, missing": (await ask(space, await token(space, "nobody"), path=missing)).status,
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
