"""``flux`` and ``penstock`` on the same objects: the same exit codes, and the same tables."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds import meta
from tests.contract.cli.conftest import Result

GROUP = "kustomize.toolkit.fluxcd.io"
DURATION = re.compile(r"([0-9]+[hms])+")
Flux = Callable[..., Result]


@pytest.fixture
def flux(cluster: Any, flux_program: Path, tmp_path: Path) -> Flux:
    """Run Flux's command as the same user."""

    def run(*arguments: str) -> Result:
        ended = subprocess.run(
            [flux_program, *arguments],
            env={
                "PATH": os.defpath,
                "HOME": str(tmp_path),
                "KUBECONFIG": str(cluster.plane.kubeconfig),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return Result(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def fleet(cluster: Any) -> Any:
    """Write a source and appliers: one is well, one failed, one is suspended."""
    cluster.git_repository(
        "apps",
        artifact=cluster.artifact,
        conditions=cluster.ready("True", "stored artifact for revision"),
        observedGeneration=1,
    )
    entries = [
        {"id": f"{cluster.namespace}_web_apps_Deployment", "v": "v1"},
        {"id": f"{cluster.namespace}_nested_{GROUP}_Kustomization", "v": "v1"},
    ]
    cluster.kustomization(
        "apps",
        conditions=cluster.ready("True", f"Applied revision: {cluster.revision}"),
        observedGeneration=1,
        lastAppliedRevision=cluster.revision,
        inventory={"entries": entries},
    )
    cluster.kustomization(
        "broken",
        conditions=cluster.ready("False", "kustomize build failed", reason="BuildFailed"),
        observedGeneration=1,
    )
    cluster.kustomization("nested", spec={"suspend": True})
    labels = {f"{GROUP}/name": "apps", f"{GROUP}/namespace": cluster.namespace}
    own = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "banner"}}
    own["metadata"] |= {"labels": labels}  # type: ignore[operator]  # a mapping
    cluster.write(own)
    return cluster


def table(text: str) -> list[list[str]]:
    """Return the words of each line; the space between columns is a tool's own."""
    return [line.split() for line in text.splitlines() if line.strip()]


TABLES = (
    ("get", "kustomizations"),
    ("get", "ks", "apps"),
    ("get", "kustomizations", "--no-header"),
    ("get", "sources", "git"),
    ("get", "sources", "git", "apps"),
    ("tree", "kustomization", "apps"),
)
DOCUMENTS = (
    ("export", "kustomization", "apps"),
    ("export", "source", "git", "apps"),
    ("export", "kustomization", "--all"),
    (
        *("create", "kustomization", "new", "--source=GitRepository/apps", "--path=./x"),
        *("--prune=true", "--interval=10m", "--export"),
    ),
    (
        *("create", "source", "git", "new", "--url=https://example.com/x", "--branch=main"),
        *("--interval=1m", "--export"),
    ),
    (
        *("create", "source", "oci", "new", "--url=oci://example.com/x", "--tag=v1"),
        *("--interval=1m", "--export"),
    ),
    (
        *("create", "helmrelease", "new", "--source=HelmRepository/x", "--chart=c"),
        *("--interval=1m", "--export"),
    ),
    ("create", "tenant", "team", "--with-namespace=team-a", "--export"),
    (
        "create",
        "secret",
        "git",
        "login",
        "--url=https://x",
        "--username=a",
        "--password=b",
        "--export",
    ),
    ("create", "secret", "helm", "login", "--username=a", "--password=b", "--export"),
)


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_both_print_the_same(words: tuple[str, ...], fleet: Any, penstock: Any, flux: Flux) -> None:
    theirs = flux(*words, "-n", fleet.namespace)
    ours = penstock(*words, "-n", fleet.namespace)

    assert (ours.code, table(ours.out)) == (theirs.code, table(theirs.out)), ours.err + theirs.err
    assert ours.code == 0


@pytest.mark.parametrize("words", DOCUMENTS, ids=" ".join)
def test_both_print_the_same_manifests(
    words: tuple[str, ...], fleet: Any, penstock: Any, flux: Flux
) -> None:
    theirs = flux(*words, "-n", fleet.namespace)
    ours = penstock(*words, "-n", fleet.namespace)

    assert (ours.code, theirs.code) == (0, 0), ours.err + theirs.err
    assert documents(ours.out) == documents(theirs.out) != []


def documents(text: str) -> list[Any]:
    """Return the documents without what the two write differently and mean alike.

    Go writes a minute as ``1m0s`` and leaves out what is false. The type of a Secret with a login
    is a hint for people, and cannot be changed later.
    """
    return [normal(document) for document in yaml.safe_load_all(text) if document]


def normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: normal(item)
            for key, item in value.items()
            if item not in (False, "kubernetes.io/basic-auth")
        }
    if isinstance(value, list):
        return [normal(item) for item in value]
    with suppress(ValueError):
        return f"{meta.parse_duration(value)}s" if DURATION.fullmatch(str(value)) else value
    return value


FAILURES = (
    ("get", "helmreleases"),
    ("get", "kustomizations", "none"),
    ("get", "sources", "git", "none"),
    ("tree", "kustomization", "none"),
    ("trace", "configmap", "none"),
    ("export", "kustomization", "none"),
    ("export", "kustomization"),
    ("delete", "kustomization", "none", "--silent"),
    ("suspend", "kustomization"),
    ("reconcile", "kustomization", "none"),
    ("reconcile", "kustomization", "nested"),  # it is suspended
    ("create", "source", "git", "new"),
    ("create", "kustomization", "new", "--path=./x"),
    ("create", "secret", "git", "s"),
    ("get", "kustomizations", "--no-such-flag"),
)


@pytest.mark.parametrize("words", FAILURES, ids=" ".join)
def test_both_fail_alike(words: tuple[str, ...], fleet: Any, penstock: Any, flux: Flux) -> None:
    theirs = flux(*words, "-n", fleet.namespace)
    ours = penstock(*words, "-n", fleet.namespace)

    assert (ours.code, theirs.code) == (1, 1), ours.err + theirs.err
    assert ours.out == theirs.out == ""
    assert ours.err


@pytest.mark.parametrize("first", ["flux", "penstock"])
def test_what_one_suspends_the_other_shows_and_deletes(
    first: str, fleet: Any, penstock: Any, flux: Flux
) -> None:
    tools = {"flux": flux, "penstock": penstock}
    one, other = tools.pop(first), next(iter(tools.values()))
    here = ("-n", fleet.namespace)

    assert one("suspend", "kustomization", "broken", *here).code == 0
    shown = table(other("get", "kustomizations", "broken", *here).out)
    assert shown[1][1] == "True"
    assert other("delete", "kustomization", "broken", "--silent", *here).code == 0
    assert one("get", "kustomizations", "broken", *here).code == 1


def test_both_trace_to_the_same_commit(fleet: Any, penstock: Any, flux: Flux) -> None:
    words = ("trace", "configmap", "banner", "-n", fleet.namespace)

    theirs, ours = flux(*words), penstock(*words)

    assert ours.code == theirs.code == 0
    assert dict(fields(ours.out)) == dict(fields(theirs.out))


def fields(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name not in ("Status", "Message"):
            yield name, value.strip()


@pytest.mark.parametrize(
    "words", [("stats",), ("events",), ("version", "--client"), ("completion", "bash")]
)
def test_both_succeed(words: tuple[str, ...], fleet: Any, penstock: Any, flux: Flux) -> None:
    here = ("-n", fleet.namespace) if words[0] in ("stats", "events") else ()

    assert penstock(*words, *here).code == flux(*words, *here).code == 0
