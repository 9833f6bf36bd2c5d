"""Rules for a Receiver."""

from collections.abc import Iterator
from typing import Final

from crds import RECEIVER
from crds.notification_receiver import Receiver
from toolkit.apply.expressions import MOST_CHARACTERS as _MOST
from toolkit.notification import demands
from webhooks.validation import expressions, notifying, schedule
from webhooks.validation.rule import Checks, Fault, Named, Rule, when

_WITHOUT_EVENTS: Final = frozenset({"generic", "generic-hmac", "generic-oidc", "harbor"})


def _selected(obj: Receiver) -> Iterator[Fault]:
    yield from notifying.selectors(obj.spec.resources, "spec.resources")


def _texts(obj: Receiver) -> Iterator[tuple[str, str]]:
    yield "spec.resourceFilter", obj.spec.resource_filter
    for number, each in enumerate(obj.spec.resources):
        yield f"spec.resources[{number}].filter", each.filter
    for number, issuer in enumerate(obj.spec.oidc_providers):
        field = f"spec.oidcProviders[{number}]"
        for count, variable in enumerate(issuer.variables):
            yield f"{field}.variables[{count}].expression", variable.expression
        for count, validation in enumerate(issuer.validations):
            yield f"{field}.validations[{count}].expression", validation.expression


def _invalid(obj: Receiver) -> Iterator[Fault]:
    left = _MOST
    for field, text in _texts(obj):
        left -= len(text)
        if left < 0:
            yield Fault(field, f"all expressions together have more than {_MOST} characters")
            return
        if text and (why := expressions.problem(text)):
            yield Fault(field, why, text)


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
        Rule(
            name="receiver-expression",
            fields=(
                "spec.resourceFilter",
                "spec.resources[].filter",
                "spec.oidcProviders[].variables[].expression",
                "spec.oidcProviders[].validations[].expression",
            ),
            demands="it compiles as CEL, has at most 4096 characters and calls only what exists",
            remedy="see docs/receivers.md",
            find=_invalid,
        ),
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
)
