"""Passes that end a release: the object is deleted, or its release goes elsewhere."""

from pathlib import Path

import msgspec
import pytest

from crds.helm import HelmRelease
from tests.fakes.helmengine import Failure
from tests.fakes.helmworld import World, installed
from toolkit.errors import TransientError, WaitingError
from toolkit.helm.actions import Chart


async def test_deleted_object_stays_until_the_objects_of_its_release_are_gone(
    tmp_path: Path,
) -> None:
    world = await installed(tmp_path)
    world.spec(timeout="87600h")
    world.api.finalizing.add("web")

    first = await world.delete()
    world.api.finalizing.clear()
    second = await world.delete()

    assert isinstance(first, WaitingError)
    assert "Deployment/team/web" in str(first)
    assert second is None
    assert world.helm.done == ["uninstall"]


async def test_process_that_starts_anew_still_waits_for_the_objects(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.spec(timeout="87600h")
    world.api.finalizing.add("web")
    await world.delete()

    world.start()
    second = await world.delete()
    world.api.finalizing.clear()
    third = await world.delete()

    assert isinstance(second, WaitingError)
    assert "Deployment/team/web" in str(second)
    assert third is None
    assert world.helm.done == ["uninstall"]


async def test_inventory_that_cannot_be_read_does_not_hold_the_object(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.obj = msgspec.convert(
        msgspec.to_builtins(world.obj)
        | {"status": {"inventory": {"entries": [{"id": "nonsense", "v": "v1"}]}}},
        HelmRelease,
    )

    assert await world.delete() is None


async def test_other_name_uninstalls_the_release_first(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.spec(releaseName="other")

    first = await world.run("spec")
    await world.ready("dependency")

    assert isinstance(first, WaitingError)
    assert world.helm.done == ["uninstall", "install"]
    assert list(world.helm.releases) == [("team", "other")]


def renamed(world: World) -> None:
    """Have the source offer a chart with another name."""
    world.source(version="2.0.0", digest="sha256:" + "b" * 64)
    world.helm.chart = Chart(name="other", version="2.0.0")


async def test_other_chart_name_uninstalls_the_release_first(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    renamed(world)

    first = await world.run("source")
    await world.ready("dependency")

    assert isinstance(first, WaitingError)
    assert "rehearse Deployment team/web" in world.api.requests
    assert world.helm.done == ["uninstall", "install"]


async def test_chart_that_may_not_delete_the_release_does_not_uninstall_it(tmp_path: Path) -> None:
    """Users who may change the source could otherwise remove what they may not change."""
    world = await installed(tmp_path)
    world.api.denied.add("web")
    renamed(world)

    error = await world.run("source")

    assert isinstance(error, TransientError)
    assert "the release stays, although its chart name has changed: Deployment/team/web" in str(
        error
    )
    assert error.reason == "UninstallFailed"
    assert world.helm.done == []


async def test_deleted_object_leaves_the_namespace_that_it_lives_in(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    place = "/api/v1/namespaces/team"
    world.helm.kinds = (("apps/v1", "Deployment", "web"), ("v1", "Namespace", "team"))
    world.helm.route = lambda _, obj: (place if obj["kind"] == "Namespace" else "/other", {})
    world.api.requests.clear()

    error = await world.delete()

    assert error is None
    assert "DELETE /other" in world.api.requests
    assert f"DELETE {place}" not in world.api.requests
    assert "NotDeleted" in [event.reason for event in world.events]


async def test_deleted_object_uninstalls_its_release(tmp_path: Path) -> None:
    world = await installed(tmp_path)

    error = await world.delete()

    assert error is None
    assert world.helm.done == ["uninstall"]
    assert world.helm.releases == {}
    assert world.obj.status.storage_namespace == ""
    assert [event.reason for event in world.events] == ["UninstallSucceeded"]


async def test_uninstallation_is_told_which_objects_the_watches_prove(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    (deployment,) = world.api.objects.values()

    await world.delete()

    assert world.helm.orders[-1].options["seen"] == [
        {
            "group": "apps",
            "kind": "Deployment",
            "namespace": "team",
            "name": "web",
            "uid": "",
            "resourceVersion": deployment["metadata"]["resourceVersion"],
        }
    ]


async def test_uninstallation_after_a_start_is_told_of_no_object(tmp_path: Path) -> None:
    world = await installed(tmp_path)

    world.start()
    await world.delete()

    assert world.helm.orders[-1].options["seen"] == []


async def test_suspended_object_leaves_its_release(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.spec(suspend=True)

    await world.delete()

    assert world.helm.done == []


async def test_release_that_is_gone_already_does_not_hold_the_object(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.helm.releases.clear()

    assert await world.delete() is None


async def without_records(tmp_path: Path, **notes: str) -> World:
    """Return an installed release whose namespace and records are being deleted."""
    world = await installed(tmp_path)
    group = "helm.toolkit.fluxcd.io"
    marks = {"meta.helm.sh/release-name": "app", "meta.helm.sh/release-namespace": "team"}
    world.api.pruned["web"] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "team",
            "uid": "1",
            "labels": {f"{group}/name": "app", f"{group}/namespace": "team"},
            "annotations": marks | notes,
        },
    }
    world.helm.releases.clear()
    world.api.ending.add("team")
    return world


async def test_objects_are_deleted_if_the_records_went_with_their_namespace(tmp_path: Path) -> None:
    world = await without_records(tmp_path)

    assert await world.delete() is None
    assert "prune Deployment team/web" in world.api.requests
    assert "info UninstallSucceeded: Deployment/team/web deleted" in world.told


@pytest.mark.parametrize(
    "notes",
    [
        {"helm.sh/resource-policy": "keep"},
        {"meta.helm.sh/release-name": "other"},
        {"meta.helm.sh/release-namespace": "other"},
    ],
)
async def test_objects_that_the_release_would_not_delete_stay(
    tmp_path: Path, notes: dict[str, str]
) -> None:
    world = await without_records(tmp_path, **notes)

    assert await world.delete() is None
    assert "web" in world.api.pruned


async def test_objects_stay_if_only_the_records_are_gone(tmp_path: Path) -> None:
    world = await without_records(tmp_path)
    world.api.ending.clear()

    assert await world.delete() is None
    assert "web" in world.api.pruned


async def test_objects_of_a_release_that_never_succeeded_stay(tmp_path: Path) -> None:
    world = await without_records(tmp_path)
    status = msgspec.structs.replace(world.obj.status, last_applied_revision="")
    world.obj = msgspec.structs.replace(world.obj, status=status)

    assert await world.delete() is None
    assert "web" in world.api.pruned


async def test_account_that_went_with_its_namespace_is_tried_once_more(tmp_path: Path) -> None:
    world = await without_records(tmp_path)
    world.spec(serviceAccountName="deployer")
    world.api.accountless.add("deployer")
    world.helm.failures["uninstall"] = Failure("secrets is forbidden", recorded=False)

    assert await world.delete() is None
    assert "prune Deployment team/web" in world.api.requests


async def test_objects_that_the_lost_account_may_not_delete_are_told(tmp_path: Path) -> None:
    world = await without_records(tmp_path)
    world.spec(serviceAccountName="deployer")
    world.api.accountless.add("deployer")
    world.api.denied.add("web")
    world.helm.failures["uninstall"] = Failure("secrets is forbidden", recorded=False)

    assert await world.delete() is None
    (told,) = [each.message for each in world.events if each.reason == "PruneFailed"]
    assert told.startswith("the applied objects stay: Deployment/team/web delete failed")
    assert told.endswith("delete them by hand if they are not needed: Deployment/team/web")


async def test_account_that_is_gone_alone_leaves_the_objects(tmp_path: Path) -> None:
    world = await without_records(tmp_path)
    world.spec(serviceAccountName="deployer")
    world.api.accountless.add("deployer")
    world.api.ending.clear()

    assert await world.delete() is None
    assert world.helm.done == []
    assert "PruneFailed" in [each.reason for each in world.events]


async def test_hooks_that_cannot_run_in_a_namespace_that_ends_do_not_hold_the_object(
    tmp_path: Path,
) -> None:
    world = await installed(tmp_path)
    ends = "unable to create new content in namespace team because it is being terminated"
    world.helm.failures["uninstall"] = Failure(ends, recorded=False)

    await world.delete()

    assert [each.options.get("disableHooks") for each in world.helm.orders[-2:]] == [None, True]


async def test_uninstallation_that_fails_as_before_is_told_once(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.helm.failures["uninstall"] = Failure("pre-delete hook failed", recorded=False)

    await world.delete()
    await world.delete()
    world.helm.failures["uninstall"] = Failure("another hook failed", recorded=False)
    await world.delete()

    assert [each.reason for each in world.events] == ["UninstallFailed"] * 2


async def test_failed_uninstallation_holds_the_object(tmp_path: Path) -> None:
    world = await installed(tmp_path)
    world.helm.failures["uninstall"] = Failure("pre-delete hook failed", recorded=False)

    error = await world.delete()

    assert error is not None
    assert error.reason == "UninstallFailed"
    assert "pre-delete hook failed" in str(error)


async def test_release_that_goes_elsewhere_waits_for_the_objects_of_the_old_one(
    tmp_path: Path,
) -> None:
    world = await installed(tmp_path)
    world.api.finalizing.add("web")
    world.spec(releaseName="other")

    first = await world.run("spec")
    second = await world.run("dependency")
    world.api.finalizing.clear()
    await world.ready("dependency")

    assert isinstance(first, WaitingError)
    assert isinstance(second, WaitingError)
    assert second.retry_after == 2
    assert world.helm.done == ["uninstall", "install"]
