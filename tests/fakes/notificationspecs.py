"""Specs of the kinds of notification: right ones, and for each rule one that is wrong."""

from typing import Any, Final

Json = dict[str, Any]

_TOKEN: Final = {"secretRef": {"name": "token"}}
_ACCOUNT: Final = {"serviceAccountName": "deployer"}
_APPS: Final = {"kind": "Kustomization", "name": "*"}
_OIDC: Final = {
    "issuerURL": "https://token.actions.githubusercontent.com",
    "validations": [{"expression": "claims.repository == 'org/app'", "message": "not ours"}],
}

_OPERATOR: Final = [
    {"kind": kind, "name": "*"}
    for kind in ("FluxInstance", "ResourceSet", "ResourceSetInputProvider")
]
RIGHT: Final[dict[str, Json]] = {
    "Provider": {"type": "slack", "address": "https://hooks.slack.com/services/a"},
    "Alert": {"providerRef": {"name": "slack"}, "eventSources": [_APPS]},
    "Receiver": {"type": "github", "resources": [{"kind": "GitRepository", "name": "a"}], **_TOKEN},
}

ALSO_RIGHT: Final[tuple[tuple[str, Json], ...]] = (
    ("Provider", {"type": "github", "address": "https://github.com/org/app", **_TOKEN}),
    ("Provider", {"type": "sentry", "address": "https://key@sentry.example.com/1"}),
    ("Provider", {"type": "telegram", "address": "", "channel": "-100", **_TOKEN}),
    ("Provider", {"type": "discord", "address": "", **_TOKEN}),
    ("Provider", {"type": "nats", "address": "nats.example:4222", "channel": "events"}),
    ("Provider", {"type": "nats", "address": "tls://nats.example", "channel": "events"}),
    ("Provider", {"type": "azureeventhub", "address": "a", "channel": "b", **_ACCOUNT}),
    ("Provider", {"type": "googlepubsub", "address": "a", "channel": "b", **_ACCOUNT}),
    (
        "Provider",
        {"type": "azuredevops", "address": "https://dev.azure.com/o/p/_git/r", **_ACCOUNT},
    ),
    ("Alert", {"eventSources": [{**_APPS, "matchLabels": {"app.kubernetes.io/name": "a"}}]}),
    ("Alert", {"inclusionList": [".*succeeded.*"], "exclusionList": ["^Dependencies"]}),
    ("Alert", {"eventSources": _OPERATOR}),
    ("Receiver", {"resources": _OPERATOR}),
    ("Receiver", {"type": "generic-oidc", "secretRef": None, "oidcProviders": [_OIDC]}),
    ("Receiver", {"events": ["ping", "push"], "resourceFilter": "res.metadata.name == req.name"}),
)

REFUSED: Final = (
    (
        "Provider",
        {"type": "nats", "address": "nats://a"},
        "provider-service",
        "spec.channel",
        "needs it",
    ),
    (
        "Provider",
        {"type": "nats", "address": "https://a", "channel": "b"},
        "provider-service",
        "spec.address",
        "begins with nats:// or tls://",
    ),
    ("Provider", {"address": ""}, "provider-service", "spec.address", "needs it: write"),
    ("Provider", {"address": "hooks.slack.com"}, "provider-service", "spec.address", "not a URL"),
    (
        "Provider",
        {"address": "https://a:b@hooks.slack.com/x"},
        "provider-service",
        "spec.address",
        "belong into the Secret",
    ),
    ("Provider", {"type": "telegram", **_TOKEN}, "provider-service", "spec.channel", "needs it"),
    ("Provider", {"type": "generic-hmac"}, "provider-service", "spec.secretRef", "with a token"),
    (
        "Provider",
        {"serviceAccountName": "a"},
        "provider-service",
        "spec.serviceAccountName",
        "only azuredevops, azureeventhub, googlepubsub do: remove it",
    ),
    (
        "Provider",
        {
            "type": "azureeventhub",
            "address": "Endpoint=sb://a.servicebus.windows.net;SharedAccessKey=b",
            "serviceAccountName": "a",
        },
        "provider-service",
        "spec.serviceAccountName",
        "has a key: remove one of the two",
    ),
    (
        "Provider",
        {"type": "github", "commitStatusExpr": "event..x", **_TOKEN},
        "commit-status-id",
        "spec.commitStatusExpr",
        "",
    ),
    (
        "Alert",
        {"eventSources": [{**_APPS, "name": "A b"}]},
        "event-sources",
        "spec.eventSources[0].name",
        "",
    ),
    (
        "Alert",
        {"exclusionList": ["(?=a)"]},
        "regular-expression",
        "spec.exclusionList[0]",
        "not a regular expression",
    ),
    (
        "Receiver",
        {"resources": [{"kind": "GitRepository", "name": "*", "matchLabels": {"a": "b c"}}]},
        "receiver-resources",
        "spec.resources[0].matchLabels[a]",
        "not a value of a label",
    ),
    (
        "Receiver",
        {"resourceFilter": "res.metadata.name =="},
        "receiver-expression",
        "spec.resourceFilter",
        "",
    ),
    (
        "Receiver",
        {"oidcProviders": [{**_OIDC, "issuerURL": "http://issuer.example.com"}]},
        "receiver-issuer",
        "spec.oidcProviders[0].issuerURL",
        "not a URL over HTTPS",
    ),
    (
        "Alert",
        {"eventMetadata": {str(number): "x" for number in range(65)}},
        "alert-metadata",
        "spec.eventMetadata",
        "65 entries, which is more than 64",
    ),
    (
        "Alert",
        {"eventMetadata": {"cluster": "x" * 2049}},
        "alert-metadata",
        "spec.eventMetadata[cluster]",
        "2049 characters, which is more than 2048",
    ),
    (
        "Alert",
        {"exclusionList": ["x"] * 257},
        "regular-expression",
        "spec.exclusionList",
        "257 patterns, which is more than 256",
    ),
)

WARNED: Final = (
    ("Provider", {"interval": "5m"}, "field-deprecated", "spec.interval", "no effect"),
    ("Alert", {"summary": "down"}, "alert-idle", "spec.summary", "deprecated"),
    (
        "Alert",
        {"eventSources": [{**_APPS, "name": "a", "matchLabels": {"a": "b"}}]},
        "alert-idle",
        "spec.eventSources[0].matchLabels",
        "no effect beside a name",
    ),
    ("Receiver", {"resources": []}, "receiver-idle", "spec.resources", "nothing to reconcile"),
)
