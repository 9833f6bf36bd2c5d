"""Allow the rest of Flux to fetch artifacts from Penstock while both run.

The network policies of an installation allow only pods of its own namespace to fetch artifacts.
Requests have no credentials, so the rule is only for the pods of Flux's Deployments.
"""

from contextlib import suppress
from typing import Final

from cli.migrating.memory import MANAGER
from cli.migrating.survey import NETWORK_POLICY, Survey
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import Json, dig

NAME: Final = "allow-artifacts-to-flux"
_PLACE: Final = "kubernetes.io/metadata.name"


def policy(survey: Survey, namespace: str) -> Json:
    """Return the NetworkPolicy for Penstock's namespace."""
    place = {"matchLabels": {_PLACE: survey.namespace}}
    return {
        "apiVersion": NETWORK_POLICY.api_version,
        "kind": NETWORK_POLICY.kind,
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/part-of": "penstock"},
        },
        "spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/component": "source-controller"}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [
                        {"namespaceSelector": place, "podSelector": each["spec"]["selector"]}
                        for each in survey.deployments
                        if dig(each, "spec", "selector")
                    ],
                    "ports": [{"port": "http", "protocol": "TCP"}],
                }
            ],
        },
    }


async def allow(api: Client, survey: Survey, namespace: str) -> None:
    """Write the policy."""
    await api.apply(policy(survey, namespace), manager=MANAGER)


async def forbid(api: Client, namespace: str) -> None:
    """Delete the policy."""
    with suppress(NotFoundError):
        await api.delete(NETWORK_POLICY, NAME, namespace)
