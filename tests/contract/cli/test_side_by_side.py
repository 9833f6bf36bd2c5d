"""``flux`` and ``penstock`` on the same objects: the same exit codes, and the same tables."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml

from crds import meta
from tests.contract.cli.conftest import Flux, custom
from tests.fakes import imagespecs, notificationspecs

NOTIFICATION = "notification.toolkit.fluxcd.io"
GROUP = "kustomize.toolkit.fluxcd.io"
DURATION = re.compile(r"([0-9]+[hms])+")


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


@pytest.fixture
def watchers(cluster: Any) -> Any:
    """Write an object of each kind that announces events, takes them, or follows images."""
    well = {"observedGeneration": 1, "conditions": cluster.ready("True", "it is well")}
    for kind, spec, status in (
        ("Provider", notificationspecs.RIGHT["Provider"], None),
        ("Alert", notificationspecs.RIGHT["Alert"], None),
        ("Receiver", notificationspecs.RIGHT["Receiver"], {**well, "webhookPath": "/hook/x"}),
        ("ImageRepository", imagespecs.RIGHT["ImageRepository"], {**well, **SCANNED}),
        ("ImagePolicy", imagespecs.RIGHT["ImagePolicy"], {**well, **CHOSEN}),
        ("ImageUpdateAutomation", imagespecs.RIGHT["ImageUpdateAutomation"], well),
    ):
        group = f"{'image' if kind.startswith('Image') else 'notification'}.toolkit.fluxcd.io"
        cluster.write(custom(group, kind, "app", dict(spec)), status=status)
    return cluster


SCANNED = {
    "canonicalImageName": "ghcr.io/org/app",
    "lastScanResult": {"scanTime": "2026-01-01T00:00:00Z", "tagCount": 3, "latestTags": ["1.0.0"]},
}
CHOSEN = {"latestRef": {"name": "ghcr.io/org/app", "tag": "1.0.0"}}


def table(text: str) -> list[list[str]]:
    """Return the words of each line; the space between columns is a tool's own."""
    return [line.split() for line in text.splitlines() if line.strip()]


TABLES = (
    ("get", "kustomizations"),
    ("get", "ks", "apps"),
    ("get", "kustomizations", "--no-header"),
    ("get", "sources", "git"),
    ("get", "sources", "git", "apps"),
    ("get", "kustomizations", "--show-source"),
    ("tree", "kustomization", "apps"),
    ("tree", "kustomization", "apps", "--compact"),
)
OF_WATCHERS = (
    ("get", "alert-providers"),
    ("get", "receivers"),
    ("get", "images", "repository"),
    ("get", "images", "policy"),
    ("get", "images", "update"),
    ("get", "receivers", "app"),
)
EXPORTED = (
    ("alert", "app"),
    ("alert-provider", "app"),
    ("receiver", "app"),
    ("image", "repository", "app"),
    ("image", "policy", "app"),
    ("image", "update", "app"),
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
    (
        *("create", "source", "oci", "new", "--url=oci://example.com/x", "--tag=v1"),
        *("--layer-selector=application/x:copy", "--interval=1m", "--export"),
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
    (
        *("create", "secret", "oci", "login", "--url=ghcr.io", "--username=a", "--password=b"),
        "--export",
    ),
    ("create", "secret", "proxy", "way", "--address=https://proxy.example.com", "--export"),
    (
        *("create", "secret", "receiver", "hook", "--type=github", "--hostname=h.example.com"),
        *("--token=t", "--export"),
    ),
    (
        *("create", "secret", "receiver", "hook", "--type=gcr", "--hostname=h.example.com"),
        *("--token=t", "--email-claim=a@example.com", "--export"),
    ),
    (
        *("create", "alert", "apps", "--provider-ref=slack", "--event-severity=info"),
        *("--event-source=Kustomization/*", "--export"),
    ),
    (
        *("create", "alert-provider", "slack", "--type=slack", "--channel=general"),
        *("--address=https://hooks.slack.com/x", "--secret-ref=slack", "--export"),
    ),
    (
        *("create", "receiver", "hook", "--type=github", "--secret-ref=hook", "--event=ping,push"),
        *("--resource=GitRepository/apps", "--export"),
    ),
    (
        *("create", "image", "repository", "app", "--image=ghcr.io/org/app", "--interval=5m"),
        *("--secret-ref=login", "--export"),
    ),
    (
        *("create", "image", "policy", "app", "--image-ref=app", "--select-semver=>=1.0.0"),
        *("--filter-regex=^v(?P<v>.*)$", "--filter-extract=$v", "--export"),
    ),
    (
        *("create", "image", "update", "apps", "--git-repo-ref=fleet", "--checkout-branch=main"),
        *("--author-name=bot", "--author-email=bot@example.com", "--git-repo-path=./apps"),
        *("--signing-key-secret=key", "--signing-key-type=ssh", "--export"),
    ),
)


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_both_print_the_same(words: tuple[str, ...], fleet: Any, penstock: Any, flux: Flux) -> None:
    theirs = flux(*words, "-n", fleet.namespace)
    ours = penstock(*words, "-n", fleet.namespace)

    assert (ours.code, table(ours.out)) == (theirs.code, table(theirs.out)), ours.err + theirs.err
    assert ours.code == 0


@pytest.mark.parametrize("words", OF_WATCHERS, ids=" ".join)
def test_both_print_the_same_of_watchers(
    words: tuple[str, ...], watchers: Any, penstock: Any, flux: Flux
) -> None:
    theirs = flux(*words, "-n", watchers.namespace)
    ours = penstock(*words, "-n", watchers.namespace)

    # Of Alerts and Providers, which have no Ready condition, we tell what became of events.
    cut = 3 if words[1].startswith("alert") else None
    lines, others = ([line[:cut] for line in table(run.out)] for run in (ours, theirs))
    assert (ours.code, lines) == (theirs.code, others), ours.err + theirs.err
    assert ours.code == 0


def test_both_export_suspend_and_delete_watchers(watchers: Any, penstock: Any, flux: Flux) -> None:
    here = ("-n", watchers.namespace)

    for words in EXPORTED:
        theirs, ours = (run("export", *words, *here) for run in (flux, penstock))
        assert (ours.code, theirs.code) == (0, 0), ours.err + theirs.err
        assert specs(ours.out) == specs(theirs.out) != []
    assert penstock("suspend", "alert", "app", *here).code == 0
    assert penstock("resume", "alert", "app", *here).code == 0
    for words in EXPORTED:
        if words[0] != "alert-provider":  # which has no spec.suspend
            assert penstock("suspend", *words, *here).code == 0
            assert yaml.safe_load(flux("export", *words, *here).out)["spec"]["suspend"] is True
        assert penstock("delete", *words, *here, "--silent").code == 0
        assert flux("export", *words, *here).code == penstock("export", *words, *here).code == 1


def specs(text: str) -> list[Any]:
    """Return names and specs: of two kinds the command reads an older version, equal in these."""
    return [(each["kind"], each["metadata"], each["spec"]) for each in documents(text)]


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
    is a hint for people, and cannot be changed later; Opaque is the default. Flux's command has an
    older version of Alert and Provider, equal in what is written here, and space in JSON.
    """
    return [normal(document) for document in yaml.safe_load_all(text) if document]


def normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: normal(item)
            for key, item in value.items()
            if item not in (False, "kubernetes.io/basic-auth", "Opaque")
        }
    if isinstance(value, list):
        return [normal(item) for item in value]
    text = str(value).replace(f"{NOTIFICATION}/v1beta3", f"{NOTIFICATION}/v1")
    if text.startswith("{"):
        return json.loads(text)
    value = text if text.startswith(NOTIFICATION) else value
    with suppress(ValueError):
        return f"{meta.parse_duration(value)}s" if DURATION.fullmatch(str(value)) else value
    return value


FAILURES = (
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
    ("get", "images", "policy", "none"),
    ("delete", "receiver", "none", "--silent"),
    ("reconcile", "image", "repository", "none"),
    ("create", "alert", "new", "--provider-ref=slack"),
    ("create", "receiver", "new", "--type=github"),
    ("create", "image", "policy", "new", "--image-ref=app"),
    ("create", "source", "oci", "new", "--url=oci://x/y", "--tag=v1", "--layer-selector=x"),
    (
        *("create", "image", "update", "new", "--git-repo-ref=x", "--checkout-branch=main"),
        *("--author-name=bot", "--author-email=bot@x", "--signing-key-type=ssh"),
    ),
    ("tree", "artifact", "generator", "none"),
    ("create", "secret", "receiver", "new", "--type=github"),
    ("create", "secret", "receiver", "new", "--type=gcr", "--hostname=h.example.com"),
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


def test_both_show_what_a_generator_made(cluster: Any, penstock: Any, flux: Flux) -> None:
    obj = custom("source.extensions.fluxcd.io", "ArtifactGenerator", "app", GENERATOR)
    made = {"name": "web", "namespace": cluster.namespace, "digest": "sha256:1", "filename": "x"}
    status = {"conditions": cluster.ready("True", "made"), "inventory": [made]}
    cluster.write({**obj, "apiVersion": "source.extensions.fluxcd.io/v1beta1"}, status=status)
    here = ("-n", cluster.namespace)

    trees = [run("tree", "artifact", "generator", "app", *here) for run in (penstock, flux)]
    lists = [run("get", "artifacts", "generators", *here) for run in (penstock, flux)]

    assert [run.code for run in (*trees, *lists)] == [0, 0, 0, 0], trees[0].err + lists[0].err
    assert table(trees[0].out) == table(trees[1].out)
    assert len(table(trees[0].out)) == 2
    assert [line[0] for line in table(lists[0].out)] == [line[0] for line in table(lists[1].out)]


GENERATOR = {
    "sources": [{"alias": "apps", "kind": "GitRepository", "name": "apps"}],
    "artifacts": [{"name": "web", "copy": [{"from": "@apps/**", "to": "@artifact/"}]}],
}


@pytest.mark.parametrize(
    "named", [("configmap", "banner"), ("banner", "--kind=ConfigMap", "--api-version=v1")]
)
def test_both_trace_to_the_same_commit(
    named: tuple[str, ...], fleet: Any, penstock: Any, flux: Flux
) -> None:
    words = ("trace", *named, "-n", fleet.namespace)

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
