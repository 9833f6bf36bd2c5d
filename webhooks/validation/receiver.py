"""Rules for a Receiver."""

from collections.abc import Iterator
from typing import Final

from crds import RECEIVER
from crds.notification_receiver import Receiver
from toolkit.expressions.expression import Expression
from toolkit.notification import demands
from webhooks.validation import expressions, notifying, schedule
from webhooks.validation.rule import Checks, Fault, Named, Rule, when

_WITHOUT_EVENTS: Final = frozenset({"generic", "generic-hmac", "generic-oidc", "harbor"})


def _selected(obj: Receiver) -> Iterator[Fault]:
    yield from notifying.selectors(obj.spec.resources, "spec.resources")


def _filter(text: str) -> Expression:
    return Expression(text=text, variables=("res", "req"))


def _variable(text: str) -> Expression:
    return Expression(text=text, variables=("claims", "vars"), result="")


def _validation(text: str) -> Expression:
    return Expression(text=text, variables=("claims", "vars"))


_EXPRESSIONS: Final = expressions.judged(
    "receiver-expression",
    {
        "spec.resourceFilter": _filter,
        "spec.resources[].filter": _filter,
        "spec.oidcProviders[].variables[].expression": _variable,
        "spec.oidcProviders[].validations[].expression": _validation,
    },
    remedy="see docs/receivers.md",
)


def _issuers(obj: Receiver) -> Iterator[Fault]:
    seen = set()
    for number, each in enumerate(obj.spec.oidc_providers):
        field = f"spec.oidcProviders[{number}].issuerURL"
        url = each.issuer_url
        wrong = not url.startswith("https://") or demands.unusable(url, "")
        yield from when(wrong, field, "it is not a URL over HTTPS", url)
        yield from when(url in seen, field, "another entry names the same issuer", url)
        seen.add(url)


def _idle(obj: Receiver) -> Iterator[Fault]:
    spec = obj.spec
    yield from when(not spec.resources, "spec.resources", "a request has nothing to reconcile")
    yield from notifying.unused_labels(spec.resources, "spec.resources")
    unused = spec.events and spec.type in _WITHOUT_EVENTS
    yield from when(unused, "spec.events", f"'{spec.type}' names no events")


CHECKS: Final[Checks[Receiver]] = Checks(
    kind=RECEIVER,
    rules=(
        Rule(
            name="receiver-resources",
            fields=("spec.resources[].name", "spec.resources[].matchLabels"),
            demands="names and labels are those that objects can have",
            remedy=notifying.SELECTOR_REMEDY,
            find=_selected,
        ),
        _EXPRESSIONS.rule,
        Rule(
            name="receiver-issuer",
            fields=("spec.oidcProviders[].issuerURL",),
            demands="it is the HTTPS address of an issuer, named once",
            remedy="write it as the field iss of its tokens",
            find=_issuers,
        ),
        Rule(
            name="receiver-idle",
            fields=("spec.resources", "spec.resources[].matchLabels", "spec.events"),
            demands="it has an effect",
            remedy="see docs/receivers.md",
            find=_idle,
            refuses=False,
        ),
        *schedule.rules("interval"),
    ),
    names=(Named(path="spec.secretRef", kind="Secret"),),
    namespaces=("spec.resources[].namespace",),
    judged=(_EXPRESSIONS,),
)
