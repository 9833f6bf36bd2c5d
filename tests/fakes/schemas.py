"""Arbitrary objects that a CustomResourceDefinition's schema admits."""

from typing import Any, Final

from hypothesis import strategies as st

Strategy = st.SearchStrategy[Any]

_HASHES: Final = ("0123456789abcdef"[:8] * 5, "fedcba98" * 8, "a" * 128)
REVISIONS: Final = st.sampled_from(
    [
        *(f"main/{text}" for text in _HASHES),
        *(f"main@sha1:{text}" for text in _HASHES),
        *(f"refs/heads/a/b/{text}" for text in _HASHES),
        *(f"HEAD/{text}" for text in _HASHES),
        *(f"sha1:{text}" for text in _HASHES),
        *(f"sha256:{text}" for text in _HASHES),
        *_HASHES,
        *("", "6.0.0", "/", f"/{_HASHES[0]}", f"@sha1:{_HASHES[0]}", f"x@y@sha1:{_HASHES[0]}"),
    ]
)
DURATIONS: Final = st.sampled_from(
    [
        "5m",
        "1h30m",
        "1h",
        "90s",
        "100us",
        "1.5h",
        ".5s",
        "1.s",
        "0",
        "3ns",
        "often",
        "-5m",
        "",
        "1d",
    ]
) | st.from_regex(r"([0-9]{1,3}(\.[0-9]{0,2})?(ns|us|µs|ms|s|m|h)){1,4}", fullmatch=True)
DIGESTS: Final = st.sampled_from([f"sha256:{_HASHES[1]}", f"sha512:{_HASHES[2]}", "sha256:0"])
CHECKSUMS: Final = st.sampled_from([_HASHES[1], _HASHES[0], "", "none"])
_OFTEN: Final[dict[str, Strategy]] = {
    "interval": DURATIONS,
    "retryInterval": DURATIONS,
    "timeout": DURATIONS,
    "revision": REVISIONS,
    "lastAppliedRevision": REVISIONS,
    "lastAttemptedRevision": REVISIONS,
    "digest": DIGESTS,
    "checksum": CHECKSUMS,
}
"""Where text has a form, by the name of the field; no other text would have it by chance."""

ANNOTATIONS: Final = st.dictionaries(
    st.sampled_from(["note", "reconcile.fluxcd.io/requestedAt"]), st.text(max_size=5), min_size=1
)
_LABELLED: Final[Strategy] = st.fixed_dictionaries(
    {"name": st.just("any"), "namespace": st.just("apps")},
    optional={"annotations": ANNOTATIONS, "labels": ANNOTATIONS},
)
_JSON: Final[Strategy] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=3,
)


def objects(api_version: str, kind: str, schema: dict[str, Any]) -> Strategy:
    """Return objects with random metadata, spec and status; durations need not fit a pattern."""
    parts = {name: schema["properties"][name] for name in ("spec", "status")}
    return st.fixed_dictionaries(
        {
            "apiVersion": st.just(api_version),
            "kind": st.just(kind),
            "metadata": _LABELLED,
            "spec": _value("spec", parts["spec"]),
        },
        optional={"status": _value("status", parts["status"])},
    )


def _value(name: str, node: dict[str, Any]) -> Strategy:
    match node:
        case {"properties": properties}:
            required = set(node.get("required", ()))
            fields = {inner: _value(inner, field) for inner, field in properties.items()}
            return st.fixed_dictionaries(
                {inner: field for inner, field in fields.items() if inner in required},
                optional={inner: field for inner, field in fields.items() if inner not in required},
            )
        case {"items": items}:
            return st.lists(_value(name, items), max_size=2)
        case {"additionalProperties": inner}:
            return st.dictionaries(st.text(max_size=3), _value("", inner), max_size=2)
        case _:
            return _scalar(name, node)


def _scalar(name: str, node: dict[str, Any]) -> Strategy:
    if "enum" in node:
        return st.sampled_from(node["enum"])
    kinds = {
        "string": _OFTEN.get(name, st.text(max_size=4)),
        "boolean": st.booleans(),
        "integer": st.integers(-1, 2**53),
    }
    return kinds.get(node.get("type", ""), _JSON)
