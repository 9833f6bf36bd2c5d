"""What a Kustomization is woken for."""

from typing import Any

from controllers.kustomize import uses
from controllers.kustomize.sources import SourceReader
from tests.fakes import kustomizations
from tests.fakes.granting import AnySource, allowing
from toolkit.kube.secrets import CONFIG_MAP, SECRET
from toolkit.objects import GroupVersionKind, ObjectRef

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
INFORMERS: Any = {"GitRepository": (GIT, None)}  # nothing is looked up
READER = SourceReader(INFORMERS, policy=allowing(), sources=AnySource())


def test_sources_configs_and_keys_are_used() -> None:
    obj = kustomizations.kustomization(
        postBuild={"substituteFrom": [{"kind": "ConfigMap", "name": "vars"}]},
        decryption={"provider": "sops", "secretRef": {"name": "keys"}},
        kubeConfig={"secretRef": {"name": "far"}},
    )

    used = uses.used(obj, READER)

    assert used.sources == (ObjectRef(GIT, "prod", "app"),)
    assert used.configs == (
        ObjectRef(CONFIG_MAP, "prod", "vars"),
        ObjectRef(SECRET, "prod", "keys"),
        ObjectRef(SECRET, "prod", "far"),
    )


def test_a_kind_that_is_not_served_is_left_to_the_pass() -> None:
    obj = kustomizations.kustomization(
        sourceRef={"kind": "Bucket", "name": "app"}, kubeConfig={"secretRef": {"name": "far"}}
    )

    used = uses.used(obj, READER)

    assert used.sources == ()
    assert used.configs == (ObjectRef(SECRET, "prod", "far"),)
