"""The image holds what a Deployment starts."""

import json
import re
from pathlib import Path

import pytest
import yaml

from release import building, product
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
    assert set(product.PACKAGES) == set(
        re.findall(r"^COPY (\w+)/ /opt/penstock/\w+/$", TEXT, re.MULTILINE)
    )


def test_the_engine_is_where_the_toolkit_looks() -> None:
    (path,) = re.findall(r"PENSTOCK_ENGINE=(\S+)", TEXT)

    for each in (Path(path), library.with_helm(Path(path))):
        assert f"COPY --from=engine /out/{each.name} {each}\n" in TEXT
        assert f"-o /out/{each.name} ." in TEXT


@pytest.mark.parametrize(
    "file",
    [
        "controllers/source-controller",
        "controllers/kustomize-controller",
        "controllers/helm-controller",
        "notification/notification-controller",
        "controllers/image-controller",
        "webhooks/webhook",
        "apiserver/apiserver",
    ],
)
def test_images_run_as_the_user_that_the_deployment_asks_for(file: str) -> None:
    documents = yaml.safe_load_all((ROOT / f"deploy/base/{file}.yaml").read_text())
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    context = deployment["spec"]["template"]["spec"]["securityContext"]

    assert {context[name] for name in ("runAsUser", "runAsGroup", "fsGroup")} == {building.USER}
    assert f"USER {building.USER}:{building.USER}\n" in TEXT


def test_bases_are_pinned_by_digest() -> None:
    bases = re.findall(r"^ARG \w+_IMAGE=(.+)$", TEXT, re.MULTILINE)

    assert len(bases) == 2
    for base in bases:
        assert re.fullmatch(r"docker\.io/library/\w+:[\w.-]+@sha256:[0-9a-f]{64}", base)


def test_dependencies_are_installed_by_hash() -> None:
    assert "--require-hashes -r /tmp/image.txt" in TEXT


def test_both_ways_to_build_start_the_same_process_in_the_same_way() -> None:
    config = building.config("amd64")["config"]

    assert f"ENTRYPOINT {json.dumps(config['Entrypoint'])}\n" in TEXT
    for label, value in config["Labels"].items():
        assert f"{label}=" in TEXT
        assert value in TEXT
    for name in ("PENSTOCK_ENGINE", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONUNBUFFERED"):
        assert f"{name}={building.ENVIRONMENT[name]}" in TEXT


def test_the_context_holds_what_is_copied_and_no_more() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = {
        source.rstrip("/")
        for line in re.findall(r"^COPY (?!--from)(.+)$", TEXT, re.MULTILINE)
        for source in line.split()[:-1]
    }

    assert "*" in lines
    assert allowed == {"engine" if each.startswith("engine/") else each for each in copied}
