"""A revision is built anew if, and only if, it changes something that the build depends on."""

from typing import Final

import pytest

from tests.loopback.kustomize.conftest import Builds
from tests.unit.toolkit.decrypt.reference import Reference

pytestmark = pytest.mark.asyncio(loop_scope="module")


def config_map(name: str, value: str = "1") -> str:
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{key: '{value}'}}\n"
    )


GENERATED: Final = {"apps/web/a.yaml": config_map("a"), "apps/web/sub/b.yaml": config_map("b")}
"""A directory without a kustomization: everything below it belongs to it."""

OVERLAY: Final = {
    "base/kustomization.yaml": "resources: [a.yaml]\n",
    "base/a.yaml": config_map("a"),
    "base/unused.yaml": config_map("unused"),
    "apps/web/kustomization.yaml": (
        "resources: [../../base]\nnamePrefix: web-\n"
        "configMapGenerator: [{name: settings, files: [settings.ini]}]\n"
    ),
    "apps/web/settings.ini": "x=1\n",
}
NEW: Final = config_map("new")


@pytest.mark.parametrize(
    ("files", "path", "changes", "unchanged"),
    [
        pytest.param(GENERATED, "apps/web", {}, True, id="nothing"),
        pytest.param(GENERATED, "apps/web", {"apps/other/a.yaml": NEW}, True, id="elsewhere"),
        pytest.param(GENERATED, "apps/web", {"apps/web/README.md": "x"}, False, id="a name"),
        pytest.param(GENERATED, "apps/web", {"apps/web/a.yaml": NEW}, False, id="a file"),
        pytest.param(GENERATED, "apps/web", {"apps/web/sub/b.yaml": None}, False, id="it is gone"),
        pytest.param(GENERATED, "apps/web", {"apps/web/new.yaml": NEW}, False, id="one more"),
        pytest.param(GENERATED, "apps/web", {"apps/web/c/d.yaml": NEW}, False, id="a directory"),
        pytest.param(
            GENERATED,
            "apps/web",
            {"apps/web/kustomization.yaml": "resources: [a.yaml]"},
            False,
            id="a kustomization appears",
        ),
        pytest.param(
            GENERATED,
            "apps/web",
            {"apps/web/sub/Kustomization": "resources: [b.yaml]"},
            False,
            id="a kustomization appears below",
        ),
        pytest.param(OVERLAY, "apps/web", {"base/unused.yaml": NEW}, True, id="not listed"),
        pytest.param(OVERLAY, "apps/web", {"apps/web/new.yaml": NEW}, True, id="not listed here"),
        pytest.param(OVERLAY, "apps/web", {"base/a.yaml": NEW}, False, id="base"),
        pytest.param(
            OVERLAY,
            "apps/web",
            {"base/kustomization.yaml": "resources: [a.yaml, unused.yaml]"},
            False,
            id="kustomization of the base",
        ),
        pytest.param(
            OVERLAY, "apps/web", {"apps/web/settings.ini": "x=2\n"}, False, id="generator"
        ),
        pytest.param(
            OVERLAY,
            "apps/web",
            {"base/kustomization.yml": "resources: []"},
            False,
            id="a second kustomization in the base",
        ),
    ],
)
async def test_what_a_build_has_read_or_looked_for_decides(
    builds: Builds,
    files: dict[str, str],
    path: str,
    changes: dict[str, str | None],
    unchanged: bool,  # noqa: FBT001 - a table
) -> None:
    later = {name: text for name, text in (files | changes).items() if text is not None}
    built = await builds.render(files, path=path)

    sources = await builds.store(later)
    found = await builds.renderer.unchanged(sources, built.footprint, flow="team", seconds=60)

    assert found is unchanged


async def test_a_file_that_becomes_a_directory_is_a_change(builds: Builds) -> None:
    files = {"kustomization.yaml": "resources: [a]\n", "a": config_map("a")}
    later = {
        "kustomization.yaml": "resources: [a]\n",
        "a/kustomization.yaml": "resources: [b.yaml]\n",
        "a/b.yaml": config_map("b"),
    }
    built = await builds.render(files)

    assert not await builds.renderer.unchanged(
        await builds.store(later), built.footprint, flow="team", seconds=60
    )


async def test_encrypted_files_are_part_of_the_footprint(builds: Builds) -> None:
    sops = Reference()
    files = {
        "kustomization.yaml": "secretGenerator: [{name: s, envs: [app.env]}]\n",
        "app.env": sops.env(PASSWORD="first"),
    }
    built = await builds.render(files, keys=sops.secret)

    async def unchanged(**changes: str | bytes) -> bool:
        sources = await builds.store({**files, **changes})
        return await builds.renderer.unchanged(sources, built.footprint, flow="team", seconds=60)

    assert await unchanged(other="x")
    assert not await unchanged(**{"app.env": sops.env(PASSWORD="second")})


async def test_what_a_build_asked_before_it_failed_is_not_known(builds: Builds) -> None:
    sops = Reference()
    files = {
        "kustomization.yaml": sops.yaml({"resources": ["a.yaml"]}),
        "a.yaml": config_map("a"),
    }

    built = await builds.render(files, keys=sops.secret)

    assert not built.footprint
