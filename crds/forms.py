"""Patterns of fields in words: what a value must be, and what to write instead of another."""

from typing import Final

from crds import helm_parts, meta

_NAME: Final = "write lower case letters, digits and '-', a letter or digit first and last"
_ALIAS: Final = r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?"
FORMS: Final = {
    # the pattern of a model: the rule, and what to write
    meta.DURATION: ("it must be a duration in h, m, s and ms", "write for example 5m or 1h30m"),
    meta.SHORT_DURATION: ("it must be a duration in m, s and ms", "write for example 60s or 2m"),
    helm_parts.TARGET_PATH: (
        "it must be a path as `helm --set` takes it",
        "write for example image.tag or hosts[0].name",
    ),
    helm_parts.VALUES_KEY: (
        "it must be a key of a ConfigMap or Secret",
        "write letters, digits, '-', '_' and '.'",
    ),
    r"^(http|https|ssh)://.*$": (
        "it must be a URL over HTTP, HTTPS or SSH",
        "write https://<host>/<path> or ssh://git@<host>/<path>",
    ),
    r"^oci://.*$": ("it must be a repository in a registry", "write oci://<host>/<name>"),
    r"^(http|https)://.*$": ("it must be a URL over HTTP or HTTPS", "write https://<host>"),
    r"^(http|https|oci)://.*$": (
        "it must be a URL over HTTP or HTTPS, or in a registry",
        "write https://<host>/<path> or oci://<host>/<path>",
    ),
    r"^[a-z0-9*+]+://.+$": (
        "it must be a URL with a scheme",
        "write for example https://<host>/**",
    ),
    r"^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$": ("it must be an alias", f"{_NAME}; '_' within it"),
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$": ("it must be a name of an object", _NAME),
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": ("it must be a name as those of namespaces", _NAME),
    r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$": ("it must be a namespace, or *", _NAME),
    rf"^@({_ALIAS})$": ("it must name a source by its alias", "write @<alias>"),
    rf"^@({_ALIAS})/(.*)$": ("it must be a path in a source", "write @<alias>/<path>"),
    r"^@(artifact)/(.*)$": ("it must be a path in the artifact", "write @artifact/<path>"),
    r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*$": (
        "it must be a relative path",
        "write names of letters, digits, '_', '-' and '.', with '/' between them",
    ),
    r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[-a-z0-9]+)*$": (
        "it must be a group of APIs",
        "write for example source.toolkit.fluxcd.io, or nothing for the core group",
    ),
    r"^(\*|[a-z0-9.-]*)$": (
        "it must be a group of APIs, or *",
        "write for example apps, or nothing for the core group",
    ),
    r"^(\*|[a-z0-9]([a-z0-9-]*))$": (
        "it must be a resource, or *",
        "write its plural in lower case, for example deployments",
    ),
    r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$": ("it must be a kind", "write for example Secret"),
    r"^([0-9A-Fa-f]{40}|[0-9A-Fa-f]{64}|SHA256:[0-9A-Za-z+/]{43,64}=?)$": (
        "it must be the fingerprint of a key",
        "write 40 or 64 hexadecimal digits for OpenPGP, or SHA256:<base64> for SSH",
    ),
    (
        r"^(\*\*|((localhost|[a-z0-9-]*[.*][a-z0-9.*-]*|\[[0-9a-f:]+\])(:[0-9]+)?"
        r"|[a-z0-9-]+:[0-9]+)/[a-z0-9*][a-z0-9._*/-]*)$"
    ): (
        "it must be a pattern for images, with the host of their registry",
        "write for example ghcr.io/acme/** or docker.io/library/*",
    ),
    r"^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$": (
        "it must be a digest",
        "write sha256:<hexadecimal digits>",
    ),
    (
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ): ("it must be the type of a condition", "write a word in CamelCase"),
    r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$": (
        "it must be the reason of a condition",
        "write a word in CamelCase",
    ),
}
