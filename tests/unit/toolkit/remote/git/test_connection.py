"""What is the server's fault, and what is ours."""

from pathlib import Path
from typing import Any

import pytest
from dulwich.objects import hex_to_sha

from toolkit.remote.git import connection
from toolkit.remote.git.errors import GitError
from toolkit.remote.git.limits import Budget, Limits
from toolkit.remote.git.url import GitUrl

URL = GitUrl.parse("https://git.example.com/x")


class Client:
    """Has the references asked for, as dulwich does, and reads an object id."""

    def __init__(self, oid: bytes) -> None:
        self._oid = oid

    def fetch_pack(self, _path: str, determine_wants: Any, *_: Any, **__: Any) -> None:
        determine_wants({})
        hex_to_sha(self._oid)  # type: ignore[arg-type]  # what a server may send


def receive(client: Any, choice: Any, folder: Path) -> None:
    connection.receive(
        client, URL, choice, folder / "pack", Budget(Limits()), prefixes=(), alone=True
    )


def test_what_dulwich_cannot_read_is_no_git(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="does not speak Git's protocol"):
        receive(Client(b"secret"), lambda _: [], tmp_path)


def test_a_defect_of_ours_is_not_blamed_on_the_server(tmp_path: Path) -> None:
    def choice(refs: dict[bytes, bytes]) -> list[bytes]:
        return [refs[b"refs/heads/main"]]

    with pytest.raises(KeyError):
        receive(Client(b"0" * 40), choice, tmp_path)
