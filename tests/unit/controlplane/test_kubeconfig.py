"""What is in a kubeconfig, and who may read it."""

import base64
from pathlib import Path

import yaml

from controlplane import kubeconfig
from controlplane.certificates import KeyPair

CLIENT = KeyPair(certificate=b"certificate", key=b"key")


def test_certificate_is_inside_the_file(tmp_path: Path) -> None:
    path = kubeconfig.write(
        tmp_path / "config", context="c", server="https://127.0.0.1:1", ca=b"ca", client=CLIENT
    )

    document = yaml.safe_load(path.read_text())
    assert document["current-context"] == "c"
    assert document["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:1",
        "certificate-authority-data": base64.b64encode(b"ca").decode(),
    }
    assert document["users"][0]["user"] == {
        "client-certificate-data": base64.b64encode(b"certificate").decode(),
        "client-key-data": base64.b64encode(b"key").decode(),
    }


def test_token_file_is_named_absolutely(tmp_path: Path) -> None:
    path = kubeconfig.write(
        tmp_path / "config", context="c", server="s", ca=b"", token_file=Path("token")
    )

    user = yaml.safe_load(path.read_text())["users"][0]["user"]
    assert user == {"tokenFile": str(Path.cwd() / "token")}


def test_file_is_readable_by_nobody_else_even_if_it_was_before(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.touch(mode=0o644)

    kubeconfig.write(path, context="c", server="s", ca=b"", token="secret")

    assert path.stat().st_mode & 0o777 == 0o600
