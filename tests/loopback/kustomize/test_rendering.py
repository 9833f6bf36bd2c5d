"""Fields of a Kustomization change what is built, alone and together."""

from typing import Any

import pytest
import yaml

from tests.loopback.kustomize.conftest import NAMESPACE, Builds
from toolkit.errors import TransientError
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARK = "kustomize.toolkit.fluxcd.io"


def manifest(kind: str, name: str, *, api_version: str = "v1", **fields: Any) -> str:
    """Return the manifest of an object; ``metadata`` is added to."""
    metadata = {"name": name, **fields.pop("metadata", {})}
    return yaml.safe_dump({"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})


def config_map(name: str, **data: str) -> str:
    return manifest("ConfigMap", name, data=data)


def deployment(name: str, image: str) -> str:
    spec = {"replicas": 1, "template": {"spec": {"containers": [{"name": "app", "image": image}]}}}
    return manifest("Deployment", name, api_version="apps/v1", spec=spec)


async def by_name(builds: Builds, files: dict[str, str], **how: Any) -> dict[str, Json]:
    """Build, and return the objects by their names."""
    rendered = await builds.render(files, **how)
    return {obj["metadata"]["name"]: obj for obj in rendered.objects}


async def test_path_chooses_a_directory(builds: Builds) -> None:
    files = {"apps/web/a.yaml": config_map("a"), "apps/b.yaml": config_map("b")}

    assert set(await by_name(builds, files, path="./apps/web")) == {"a"}


async def test_names_namespace_and_images_are_transformed(builds: Builds) -> None:
    files = {
        "web.yaml": deployment("web", "registry.example/app:1"),
        "tool.yaml": deployment("tool", "registry.example/tool:1"),
        "settings.yaml": manifest("ConfigMap", "settings", metadata={"namespace": "elsewhere"}),
    }
    digest = f"sha256:{'0' * 64}"
    images = [
        {"name": "registry.example/app", "newName": "mirror.example/app", "newTag": "2"},
        {"name": "registry.example/tool", "digest": digest},
    ]

    found = await by_name(builds, files, namePrefix="pre-", nameSuffix="-end", images=images)

    def image(name: str) -> object:
        return dig(found[name], "spec", "template", "spec", "containers")[0]["image"]

    assert image("pre-web-end") == "mirror.example/app:2"
    assert image("pre-tool-end") == f"registry.example/tool@{digest}"
    assert {obj["metadata"]["namespace"] for obj in found.values()} == {NAMESPACE}


async def test_patches_of_every_form_are_applied(builds: Builds) -> None:
    files = {"a.yaml": config_map("alpha", kept="1"), "b.yaml": config_map("beta", kept="1")}
    merge = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "alpha"}}
    added = [{"op": "add", "path": "/data/json", "value": "1"}]
    legacy = [{"op": "add", "path": "/data/legacyJson", "value": "1"}]

    found = await by_name(
        builds,
        files,
        validation="client",
        patches=[
            {"patch": yaml.safe_dump({**merge, "data": {"merge": "1"}})},
            {"patch": yaml.safe_dump(added), "target": {"kind": "ConfigMap", "name": "(al|be).*"}},
        ],
        patchesStrategicMerge=[{**merge, "data": {"legacyMerge": "1"}}],
        patchesJson6902=[
            {"patch": legacy, "target": {"version": "v1", "kind": "ConfigMap", "name": "beta"}}
        ],
    )

    assert found["alpha"]["data"] == {"kept": "1", "merge": "1", "json": "1", "legacyMerge": "1"}
    assert found["beta"]["data"] == {"kept": "1", "json": "1", "legacyJson": "1"}


async def test_components_are_added_and_a_missing_one_only_if_ignored(builds: Builds) -> None:
    component = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": ["extra.yaml"],
    }
    files = {
        "app/a.yaml": config_map("a"),
        "parts/one/kustomization.yaml": yaml.safe_dump(component),
        "parts/one/extra.yaml": config_map("extra"),
    }
    spec: dict[str, Any] = {"path": "./app", "components": ["../parts/one", "../parts/missing"]}

    with pytest.raises(TransientError, match="parts/missing") as refused:
        await builds.render(files, **spec)
    found = await by_name(builds, files, **spec, ignoreMissingComponents=True)

    assert refused.value.reason == "BuildFailed"
    assert set(found) == {"a", "extra"}


async def test_common_and_build_metadata_are_put_on_every_object(builds: Builds) -> None:
    labels = {"team": "theirs", "own": "1"}
    files = {"a.yaml": manifest("ConfigMap", "a", metadata={"labels": labels})}

    found = await by_name(
        builds,
        files,
        commonMetadata={"labels": {"team": "ours"}, "annotations": {"example.org/note": "x"}},
        buildMetadata=["originAnnotations", "transformerAnnotations"],
    )

    metadata = found["a"]["metadata"]
    assert metadata["labels"] == {
        "team": "ours",
        "own": "1",
        f"{MARK}/name": "app",
        f"{MARK}/namespace": NAMESPACE,
    }
    annotations = metadata["annotations"]
    assert annotations["example.org/note"] == "x"
    assert "path: a.yaml" in annotations["config.kubernetes.io/origin"]
    transformations = annotations["alpha.config.kubernetes.io/transformations"]
    assert "NamespaceTransformer" in transformations


SWITCHES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "given": ({"substitute": {"v": "given"}}, {"a": "given", "b": "${v}"}),
    "always": ({"substituteStrategy": "Always"}, {"a": "assumed", "b": "${v}"}),
    "without": ({"substitute": {}}, {"a": "${v:=assumed}", "b": "${v}"}),
}


@pytest.mark.parametrize("switch", SWITCHES)
async def test_substitution_is_off_without_variables_or_where_disabled(
    builds: Builds, switch: str
) -> None:
    post_build, expected = SWITCHES[switch]
    disabled = {"annotations": {f"{MARK}/substitute": "disabled"}}
    files = {
        "a.yaml": config_map("a", v="${v:=assumed}"),
        "b.yaml": manifest("ConfigMap", "b", metadata=disabled, data={"v": "${v}"}),
    }

    found = await by_name(
        builds, files, postBuild=post_build, variables=post_build.get("substitute")
    )

    assert {name: obj["data"]["v"] for name, obj in found.items()} == expected


async def test_variable_without_a_value_is_named_with_its_object(builds: Builds) -> None:
    files = {"a.yaml": config_map("a", v="${undefined}")}

    with pytest.raises(TransientError, match="undefined") as refused:
        await builds.render(files, postBuild={"substitute": {"b": "1"}}, variables={"b": "1"})

    assert f"ConfigMap/{NAMESPACE}/a" in str(refused.value)
    assert refused.value.reason == "BuildFailed"


async def test_number_in_a_variable_becomes_a_number(builds: Builds) -> None:
    text = deployment("web", "app:1").replace("replicas: 1", "replicas: ${n}")
    post_build = {"substitute": {"n": "2"}}

    found = await by_name(builds, {"d.yaml": text}, postBuild=post_build, variables={"n": "2"})

    assert found["web"]["spec"]["replicas"] == 2
