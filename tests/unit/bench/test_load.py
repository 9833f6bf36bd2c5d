"""The load: what each directory and Kustomization holds."""

import yaml

from bench import load


def test_each_directory_holds_four_objects_of_one_name() -> None:
    files = load.files("app-0001", message="first", kustomize=False)

    objects = [yaml.safe_load(text) for text in files.values()]
    assert len(objects) == 4
    assert {obj["kind"] for obj in objects} == {
        "ConfigMap",
        "ServiceAccount",
        "Service",
        "Deployment",
    }
    assert {obj["metadata"]["name"] for obj in objects} == {"app-0001"}


def test_change_concerns_the_config_map_alone() -> None:
    first = load.files("app-0001", message="first", kustomize=False)
    second = load.files("app-0001", message="second", kustomize=False)

    changed = {name for name in first if first[name] != second[name]}

    assert changed == {"apps/app-0001/configmap.yaml"}


def test_kustomization_file_lists_all_others() -> None:
    files = load.files("app-0001", message="first", kustomize=True)

    listed = yaml.safe_load(files["apps/app-0001/kustomization.yaml"])["resources"]

    assert {f"apps/app-0001/{name}" for name in listed} == files.keys() - {
        "apps/app-0001/kustomization.yaml"
    }


def test_kustomization_waits_prunes_and_carries_the_labels() -> None:
    made = load.kustomization("app-0001", {"shard": "a"})

    assert made["spec"]["wait"]
    assert made["spec"]["prune"]
    assert made["metadata"]["labels"] == {"shard": "a"}
