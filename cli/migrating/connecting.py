"""What is left of Flux and Penstock reach each other while both are there.

The policies of an installation let only pods of its own namespace fetch artifacts. These carry no
credentials on the wire, so the rule is for the pods of Flux's Deployments alone. Where Flux's
notification-controller goes on running, Penstock posts its events to it, as Flux's did.
"""

from contextlib import suppress
from typing import Final

from cli.installing import flux
from cli.migrating.memory import MANAGER
from cli.migrating.survey import NETWORK_POLICY, Survey
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import Json, dig

NAME: Final = "allow-artifacts-to-flux"
_LISTENER: Final = "notification-controller"
_EVENTS: Final = "--events-addr="
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


def events(survey: Survey) -> str:
    """Return where Flux's controllers post events, if somebody goes on listening there."""
    names = {flux.component(each) for each in survey.deployments}
    if _LISTENER not in names or flux.is_replaced(_LISTENER):
        return ""
    arguments = (
        str(argument)
        for each in survey.deployments
        for container in dig(each, "spec", "template", "spec", "containers", default=())
        for argument in container.get("args") or ()
    )
    told = (each.partition("=")[2] for each in arguments if each.startswith(_EVENTS))
    return next(told, "")


async def allow(api: Client, survey: Survey, namespace: str) -> None:
    """Write the policy."""
    await api.apply(policy(survey, namespace), manager=MANAGER)


async def forbid(api: Client, namespace: str) -> None:
    """Delete the policy."""
    with suppress(NotFoundError):
        await api.delete(NETWORK_POLICY, NAME, namespace)
