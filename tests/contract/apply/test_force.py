"""What cannot be changed in place is recreated only when that is asked for, and safe."""

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.apply.conftest import permitted
from toolkit.apply.changes import ApplyError
from toolkit.objects import Json, dig, gvk_of


def _relabelled(make: Any, **labels: str) -> Json:
    """Return the deployment with another selector, which is immutable."""
    changed: Json = make.deployment()
    changed["spec"]["selector"] = {"matchLabels": {"app": "web", **labels}}
    changed["spec"]["template"]["metadata"]["labels"] = {"app": "web", **labels}
    return changed


async def _uid(api: Any, obj: Json) -> str:
    meta = obj["metadata"]
    return str(dig(await api.get(gvk_of(obj), meta["name"], meta["namespace"]), "metadata", "uid"))


async def test_an_immutable_field_is_refused_without_force(apply: Any, make: Any, api: Any) -> None:
    await apply(make.deployment())
    before = await _uid(api, make.deployment())

    with pytest.raises(ApplyError, match=r"dry-run failed \(Invalid\): .*field is immutable"):
        await apply(_relabelled(make, new="label"))

    assert await _uid(api, make.deployment()) == before


@pytest.mark.parametrize("by", ["option", "annotation"])
async def test_force_recreates_what_is_immutable(
    apply: Any, make: Any, api: Any, options: Any, by: str
) -> None:
    await apply(make.deployment())
    before = await _uid(api, make.deployment())
    changed = _relabelled(make, new="label")
    if by == "annotation":
        changed = make.marked(changed, force="Enabled")

    changes = await apply(changed, options=replace(options, force=by == "option"))

    assert [entry.action for entry in changes.entries] == ["created"]
    assert await _uid(api, make.deployment()) == changes.entries[0].uid != before


async def test_nothing_is_deleted_while_another_object_is_refused(
    apply: Any, make: Any, api: Any, options: Any
) -> None:
    await apply(make.deployment())
    before = await _uid(api, make.deployment())

    with pytest.raises(ApplyError, match="Bad_Name"):
        await apply(
            _relabelled(make, new="label"),
            make.config_map("Bad_Name"),
            options=replace(options, force=True),
        )

    assert await _uid(api, make.deployment()) == before


async def test_a_manifest_that_could_not_be_created_deletes_nothing(
    apply: Any, make: Any, api: Any, options: Any
) -> None:
    await apply(make.deployment())
    before = await _uid(api, make.deployment())
    unfit = _relabelled(make, new="label")
    unfit["spec"]["template"]["metadata"]["labels"] = {"app": "web"}

    with pytest.raises(ApplyError, match="Invalid"):
        await apply(unfit, options=replace(options, force=True))

    assert await _uid(api, make.deployment()) == before


async def test_nothing_is_deleted_that_could_not_be_created_again(
    apply: Any, make: Any, api: Any, cluster: Any, options: Any
) -> None:
    before, after = _versions(make)["ConfigMap"]
    await apply(before)
    uid = await _uid(api, before)
    user = f"system:serviceaccount:{make.namespace}:editor"
    verbs = "--verb=get,list,patch,delete"
    cluster("create", "role", "editor", verbs, "--resource=configmaps")
    cluster("create", "rolebinding", "editor", "--role=editor", f"--user={user}")
    editor = api.impersonating(user)
    await permitted(editor, before)

    with pytest.raises(ApplyError, match="cannot create resource"):
        await apply(after, as_=editor, options=replace(options, force=True))

    assert await _uid(api, before) == uid


async def test_an_invalid_change_is_not_taken_for_an_immutable_field(
    apply: Any, make: Any, api: Any, options: Any
) -> None:
    await apply(make.deployment())
    before = await _uid(api, make.deployment())

    with pytest.raises(ApplyError, match="must be greater than or equal to 0"):
        await apply(make.deployment(replicas=-1), options=replace(options, force=True))

    assert await _uid(api, make.deployment()) == before


async def test_a_forbidden_combination_is_not_taken_for_an_immutable_field(
    apply: Any, make: Any, api: Any, options: Any
) -> None:
    await apply(make.deployment())
    before = await _uid(api, make.deployment())
    # the live rollingUpdate was defaulted, and as a new object this would be fine
    manifest = make.deployment(strategy={"type": "Recreate"})

    with pytest.raises(ApplyError, match="may not be specified when strategy"):
        await apply(manifest, options=replace(options, force=True))

    assert await _uid(api, make.deployment()) == before


@pytest.mark.parametrize("kind", ["StatefulSet", "ConfigMap", "RoleBinding", "Secret"])
async def test_each_way_to_say_immutable_is_understood(
    apply: Any, make: Any, options: Any, kind: str
) -> None:
    before, after = _versions(make)[kind]
    await apply(before)

    changes = await apply(after, options=replace(options, force=True))

    assert [entry.action for entry in changes.entries] == ["created"]


def _versions(make: Any) -> dict[str, tuple[Json, Json]]:
    def stateful(service: str) -> Json:
        spec = make.deployment()["spec"] | {"serviceName": service}
        return dict(make("apps/v1", "StatefulSet", "db", spec=spec))

    def binding(role: str) -> Json:
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
        return dict(make("rbac.authorization.k8s.io/v1", "RoleBinding", "b", roleRef=ref))

    return {
        "StatefulSet": (stateful("a"), stateful("b")),
        "ConfigMap": (
            make("v1", "ConfigMap", "c", data={"a": "1"}, immutable=True),
            make("v1", "ConfigMap", "c", data={"a": "2"}, immutable=True),
        ),
        "RoleBinding": (binding("one"), binding("two")),
        "Secret": (make("v1", "Secret", "s", type="a"), make("v1", "Secret", "s", type="b")),
    }


def _claim(make: Any, mode: str) -> Json:
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    claim: Json = make("v1", "PersistentVolumeClaim", "data", spec=spec)
    return claim


async def test_a_volume_claim_is_not_recreated_by_force(
    apply: Any, make: Any, api: Any, options: Any
) -> None:
    claim = _claim(make, "ReadWriteOnce")
    await apply(claim)
    before = await _uid(api, claim)

    with pytest.raises(ApplyError, match="recreated only if it carries"):
        await apply(_claim(make, "ReadWriteMany"), options=replace(options, force=True))

    assert await _uid(api, claim) == before


async def test_a_job_gets_its_new_template(apply: Any, make: Any, options: Any, api: Any) -> None:
    def job(image: str) -> Json:
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}
        made: Json = make("batch/v1", "Job", "once", spec={"template": {"spec": pod}})
        return made

    await apply(job("one"))

    await apply(job("two"), options=replace(options, force=True))

    live = await api.get(gvk_of(job("")), "once", make.namespace)
    assert dig(live, "spec", "template", "spec", "containers")[0]["image"] == "two"
