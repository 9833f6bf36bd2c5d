"""The cluster is taken over, the credentials are not."""

from pathlib import Path

import pytest
import yaml

from cli import errors
from cli.stack import kubeconfigs

ADMIN = """
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: a, user: admin}}
- {name: two, context: {cluster: b, user: admin, namespace: team}}
clusters:
- {name: a, cluster: {server: "https://127.0.0.1:6443", certificate-authority: pki/ca.crt}}
- {name: b, cluster: {server: "https://127.0.0.1:7443", certificate-authority-data: Y2E=}}
users:
- {name: admin, user: {client-key-data: c2VjcmV0, token: secret}}
"""


@pytest.fixture
def admin(tmp_path: Path) -> Path:
    path = tmp_path / "admin.kubeconfig"
    path.write_text(ADMIN)
    return path


def test_result_reads_the_token_file_and_holds_no_credentials(admin: Path) -> None:
    text = kubeconfigs.for_token_file(admin, Path("/tokens/source"), namespace="penstock-system")

    made = yaml.safe_load(text)
    assert made["users"] == [{"name": "penstock", "user": {"tokenFile": "/tokens/source"}}]
    assert made["contexts"][0]["context"]["namespace"] == "penstock-system"
    assert "secret" not in text
    assert "c2VjcmV0" not in text


def test_relative_certificate_path_still_leads_to_the_file(admin: Path) -> None:
    text = kubeconfigs.for_token_file(admin, Path("/t"), namespace="ns")

    cluster = yaml.safe_load(text)["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:6443"
    assert cluster["certificate-authority"] == str(admin.parent / "pki" / "ca.crt")


def test_other_context_can_be_chosen(admin: Path) -> None:
    text = kubeconfigs.for_token_file(admin, Path("/t"), namespace="ns", context="two")

    assert yaml.safe_load(text)["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:7443"


def test_unknown_context_is_named_with_the_remedy(admin: Path) -> None:
    with pytest.raises(errors.UsageError, match=r"no context 'three'.*use-context"):
        kubeconfigs.for_token_file(admin, Path("/t"), namespace="ns", context="three")


@pytest.mark.parametrize("text", ["", "[", "- a list"])
def test_damaged_kubeconfig_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken"
    path.write_text(text)

    with pytest.raises(errors.UsageError, match="broken"):
        kubeconfigs.for_token_file(path, Path("/t"), namespace="ns")
