"""Columns of ``get``."""

import pytest

from cli import columns
from cli.commands import get
from crds import RECEIVER


@pytest.mark.parametrize(
    ("message", "repeated"),
    [
        ("Applied revision: main@sha1:01234567", True),
        ("stored artifact for revision 'main@sha1:01234567'", True),
        ("Fetched revision main@sha1:01234567", True),
        ("nothing of it", False),
        ("main@sha1:01234567 differs", False),
    ],
)
def test_a_message_repeats_the_revision_that_it_ends_with(message: str, *, repeated: bool) -> None:
    assert columns.repeats(message, "main@sha1:01234567") is repeated
    assert not columns.repeats(message, "")


def test_the_path_of_a_receiver_is_shown_whole() -> None:
    path = f"/hook/{'0123456789abcdef' * 4}"
    ready = {"type": "Ready", "status": "True", "message": f"Receiver initialized for path: {path}"}
    receiver = {
        "kind": "Receiver",
        "metadata": {"name": "fleet", "namespace": "apps"},
        "status": {"conditions": [ready]},
    }
    query = get.Query(
        kinds=(RECEIVER,),
        name="",
        all_namespaces=False,
        label_selector="",
        status_selector=None,
        format="",
        wide=False,
        header=True,
    )

    cells = get.row(RECEIVER, receiver, query, columns.of(RECEIVER.kind))

    assert cells[-1].endswith(path)
