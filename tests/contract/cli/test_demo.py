"""What the demo shows with: commits that git verifies, and a kubectl that tells refusals apart."""

import asyncio
from pathlib import Path

import pytest

from cli import errors
from cli.demo.kubectl import Kubectl
from cli.demo.repository import Repository
from cli.demo.signing import Author
from controlplane.plane import ControlPlane
from toolkit.objects import Json


@pytest.fixture
def kubectl(control_plane: ControlPlane) -> Kubectl:
    program = str(control_plane.kubectl_program)
    return Kubectl(program=program, kubeconfig=control_plane.kubeconfig, patience=1.0)


def config_map(namespace: str, name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
    }


async def verified(repository: Repository, author: Author, directory: Path) -> bool:
    """Have git and ssh-keygen look at the last commit of what is served."""
    allowed = directory / "allowed"
    allowed.write_text(f"ada@example.com {author.public}")
    process = await asyncio.create_subprocess_exec(
        *("git", "-C", str(repository.bare), "-c", f"gpg.ssh.allowedSignersFile={allowed}"),
        *("verify-commit", "main"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await process.wait() == 0


async def test_git_verifies_a_signed_commit_and_no_other(tmp_path: Path) -> None:
    ada = Author(name="ada@example.com")
    repository = await Repository.create(tmp_path, "shop")

    await repository.commit("first", write={"a": "1"})
    before = await verified(repository, ada, tmp_path)
    commit = await repository.commit("second\n\nwith a body", write={"a": "2"}, author=ada)
    signed = await verified(repository, ada, tmp_path)
    by_another = await verified(repository, Author(name="eve@example.com"), tmp_path)
    after = await repository.commit("third", write={"a": "3"}, author=ada)

    assert (before, signed, by_another) == (False, True, False)
    assert commit != after
    assert await verified(repository, ada, tmp_path)


async def test_what_is_admitted_is_no_refusal(kubectl: Kubectl, namespace: str) -> None:
    with pytest.raises(errors.FailedError, match="ConfigMap/a was admitted"):
        await kubectl.refused(config_map(namespace, "a"))


async def test_what_others_refuse_is_no_refusal_of_the_gate(
    kubectl: Kubectl, namespace: str
) -> None:
    with pytest.raises(errors.FailedError, match=r"not refused by the gate: .*Not A Name"):
        await kubectl.refused(config_map(namespace, "Not A Name"))


async def test_decision_that_does_not_come_is_told(kubectl: Kubectl, namespace: str) -> None:
    obj = config_map(namespace, "b")

    await kubectl.decides(obj, admitted=True)
    with pytest.raises(errors.DeadlineError, match="ConfigMap/b was not refused within 1s"):
        await kubectl.decides(obj, admitted=False)
