"""The image holds what a Deployment starts."""

import re
from pathlib import Path

import pytest
import yaml

from toolkit.native import library

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "deploy" / "Containerfile").read_text()


def test_what_is_copied_from_the_repository_is_there() -> None:
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", TEXT, re.MULTILINE)
        for source in line.split()[:-1]
    ]

    assert copied
    assert [source for source in copied if not (ROOT / source).exists()] == []


def test_every_package_that_a_deployment_starts_is_in_the_image() -> None:
    packages = {"apiserver", "certs", "controllers", "crds", "toolkit", "webhooks"}

    assert packages <= set(re.findall(r"^COPY (\w+)/ /opt/penstock/\w+/$", TEXT, re.MULTILINE))


def test_the_engine_is_where_the_toolkit_looks() -> None:
    (path,) = re.findall(r"PENSTOCK_ENGINE=(\S+)", TEXT)

    for each in (Path(path), library.with_helm(Path(path))):
        assert f"COPY --from=engine /out/{each.name} {each}\n" in TEXT
        assert f"-o /out/{each.name} ." in TEXT


@pytest.mark.parametrize(
    "component", ["source-controller", "kustomize-controller", "helm-controller"]
)
def test_the_image_runs_as_the_user_that_the_deployment_asks_for(component: str) -> None:
    documents = yaml.safe_load_all(
        (ROOT / "deploy/base/controllers" / f"{component}.yaml").read_text()
    )
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    context = deployment["spec"]["template"]["spec"]["securityContext"]

    assert f"USER {context['runAsUser']}:{context['runAsGroup']}\n" in TEXT


def test_dependencies_are_installed_by_hash() -> None:
    assert "--require-hashes -r /tmp/runtime.txt" in TEXT
