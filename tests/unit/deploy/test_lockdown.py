"""Every process that decides by a flag of the lockdown is told it."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
LOCKDOWN = ROOT / "deploy" / "components" / "lockdown" / "kustomization.yaml"
DEPLOYMENTS = {
    "controllers/source": "source-controller",
    "controllers/kustomize": "kustomize-controller",
    "controllers/helm": "helm-controller",
    "controllers/notification": "notification-controller",
    "controllers/image": "image-controller",
    "webhooks": "webhook",
    "apiserver": "penstock-apiserver",
}


@pytest.mark.parametrize("package", DEPLOYMENTS)
def test_a_process_that_decides_by_a_flag_is_told_it(package: str) -> None:
    text = source(package)
    if "from controllers.applying" in text:
        text += source("controllers/applying")
    decides = "references.under(" in text or "default_service_account" in text
    (flags, *_) = yaml.safe_load(LOCKDOWN.read_text())["patches"]

    assert (DEPLOYMENTS[package] in flags["target"]["name"]) == decides


def source(package: str) -> str:
    return "".join(file.read_text() for file in sorted((ROOT / package).rglob("*.py")))
