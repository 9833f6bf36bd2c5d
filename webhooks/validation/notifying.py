"""Rules for a Provider and an Alert."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from crds import ALERT, PROVIDER
from crds.notification import Alert, ObjectSelector, Provider
from toolkit.expressions.expression import Expression
from toolkit.notification import demands, metadata
from webhooks.validation import expressions, naming, schedule
from webhooks.validation.rule import Checks, Fault, Named, Rule, when

EVERY: Final = "*"
_SHOWN: Final = 64


def _demanded(obj: Provider) -> Iterator[Fault]:
    for problem in demands.problems(obj.spec):
        yield Fault(problem.field, problem.why, problem.value)


def _identifier(text: str) -> Expression:
    return Expression(text=text, variables=("event", "alert", "provider"), result="string")


_STATUS_ID: Final = expressions.judged(
    "commit-status-id",
    {"spec.commitStatusExpr": _identifier},
    remedy="see docs/notifications.md",
)


def _deprecated(obj: Provider) -> Iterator[Fault]:
    yield from when(obj.spec.interval, "spec.interval", "it has no effect", obj.spec.interval)
    why = "it is deprecated: name a Secret in spec.proxySecretRef"
    yield from when(obj.spec.proxy, "spec.proxy", why)


def selectors(found: Sequence[ObjectSelector], field: str) -> Iterator[Fault]:
    """Yield the faults of selectors of objects."""
    for number, each in enumerate(found):
        place = f"{field}[{number}]"
        if each.name != EVERY and (why := naming.object_name(each.name)):
            yield Fault(f"{place}.name", why, each.name)
        yield from naming.labels(f"{place}.matchLabels", each.match_labels)


def unused_labels(found: Sequence[ObjectSelector], field: str) -> Iterator[Fault]:
    """Yield labels that nothing is selected by."""
    for number, each in enumerate(found):
        wrong = each.match_labels and each.name != EVERY
        why = f"they have no effect beside a name other than '{EVERY}'"
        yield from when(wrong, f"{field}[{number}].matchLabels", why)


def _sources(obj: Alert) -> Iterator[Fault]:
    yield from selectors(obj.spec.event_sources, "spec.eventSources")


def _metadata(obj: Alert) -> Iterator[Fault]:
    given, place = obj.spec.event_metadata, "spec.eventMetadata"
    many = len(given) > metadata.MOST
    yield from when(many, place, f"it has {len(given)} entries, which is more than {metadata.MOST}")
    for key, value in islice(given.items(), metadata.MOST):
        longest = max(len(key), len(value))
        why = f"it has {longest} characters, which is more than {metadata.LONGEST}"
        yield from when(longest > metadata.LONGEST, f"{place}[{key[:_SHOWN]}]", why)


def _idle(obj: Alert) -> Iterator[Fault]:
    spec = obj.spec
    yield from when(not spec.event_sources, "spec.eventSources", "it selects no object")
    yield from unused_labels(spec.event_sources, "spec.eventSources")
    why = "it is deprecated: write it as 'summary' in spec.eventMetadata"
    yield from when(spec.summary, "spec.summary", why)


SELECTOR_REMEDY: Final = "write the name of an object, or * with labels or alone"

PROVIDER_CHECKS: Final[Checks[Provider]] = Checks(
    kind=PROVIDER,
    rules=(
        Rule(
            name="provider-service",
            fields=(
                "spec.type",
                "spec.address",
                "spec.channel",
                "spec.secretRef",
                "spec.serviceAccountName",
            ),
            demands="the type is implemented and gets what its service needs, and no more",
            remedy="see docs/notifications.md",
            find=_demanded,
        ),
        _STATUS_ID.rule,
        Rule(
            name="field-deprecated",
            fields=("spec.interval", "spec.proxy"),
            demands="it is not deprecated",
            remedy="remove it, or use its replacement",
            find=_deprecated,
            refuses=False,
        ),
        *schedule.of_actions("timeout"),
    ),
    names=(
        Named(path="spec.secretRef", kind="Secret"),
        Named(path="spec.certSecretRef", kind="Secret"),
        Named(path="spec.proxySecretRef", kind="Secret"),
        Named(path="spec.serviceAccountName", kind="ServiceAccount"),
    ),
    judged=(_STATUS_ID,),
)
ALERT_CHECKS: Final[Checks[Alert]] = Checks(
    kind=ALERT,
    rules=(
        Rule(
            name="event-sources",
            fields=("spec.eventSources[].name", "spec.eventSources[].matchLabels"),
            demands="names and labels are those that objects can have",
            remedy=SELECTOR_REMEDY,
            find=_sources,
        ),
        Rule(
            name="alert-metadata",
            fields=("spec.eventMetadata",),
            demands=f"it has at most {metadata.MOST} entries with at most {metadata.LONGEST} "
            "characters in each key and value",
            remedy="leave out what no service needs",
            find=_metadata,
        ),
        Rule(
            name="alert-idle",
            fields=("spec.eventSources", "spec.eventSources[].matchLabels", "spec.summary"),
            demands="it has an effect",
            remedy="see docs/notifications.md",
            find=_idle,
            refuses=False,
        ),
    ),
    names=(Named(path="spec.providerRef", kind="Provider"),),
    namespaces=("spec.eventSources[].namespace",),
    patterns=("spec.inclusionList[]", "spec.exclusionList[]"),
)
