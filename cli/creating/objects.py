"""A row of ``create``: a kind and its flags; and the manifests made from it."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from cli import errors
from cli.creating import flags
from cli.creating.flags import Flag, Values
from crds import misfits
from crds.kind import Kind
from toolkit import dnsnames
from toolkit.objects import Json

Finish = Callable[[Values, Json], None]
"""Completes a spec, or refuses the typed values with a UsageError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The Secret that a source is made with: its data and the fields that refer to it."""

    data: Mapping[str, str]
    fields: tuple[str, ...] = ("secretRef",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The creation of one kind; ``secret`` is the pattern of its Secret's name.

    ``finish`` sets fields that depend on several flags. ``credentials`` makes the Secret from the
    typed values, or nothing without them.
    """

    kind: Kind[Any]
    example: str
    flags: tuple[Flag, ...]
    finish: Finish | None = None
    secret: str = "{name}"  # noqa: S105 - the pattern of a name
    credentials: Callable[[Values], Credentials | None] | None = None


def manifest(row: Row, name: str, namespace: str, values: Values) -> Json:
    """Return the object for the typed values.

    Raises:
        UsageError: a value is missing, or values contradict each other.
    """
    spec = flags.fields(row.flags, values)
    if row.finish:
        row.finish(values, spec)
    version, model = _version(row.kind)
    made: Json = {
        "apiVersion": f"{row.kind.group}/{version}",
        "kind": row.kind.kind,
        "metadata": metadata(name, namespace, values.get("label") or ()),
        "spec": spec,
    }
    _require_fit(row, made, model)
    return made


def _version(kind: Kind[Any]) -> tuple[str, type[Struct]]:
    """Return the newest version that Flux has, too: the manifest can go to either."""
    current = ((old.version, old.model) for old in kind.older if old.current)
    return next(current, (kind.version, kind.model))


def _require_fit(row: Row, made: Json, model: type[Struct]) -> None:
    """Refuse here what the API server would refuse; the message names the flag."""
    try:
        msgspec.convert(made, model)
    except msgspec.ValidationError as exc:
        misfit = misfits.explain(exc, made, model)
        places = {f"spec.{flag.at}": f"--{flag.name}" for flag in row.flags if flag.at}
        field = places.get(misfit.field, misfit.field)
        raise errors.UsageError(str(dataclasses.replace(misfit, field=field))) from exc


def metadata(name: str, namespace: str, pairs: Iterable[str]) -> Json:
    """Return the metadata, with labels of ``key=value``.

    Raises:
        UsageError: one is not such a pair, or no object can have this name.
    """
    if not dnsnames.is_subdomain(name):
        raise errors.UsageError(
            f"{name!r} is not a name of an object: write lower case letters, digits, '-' and '.', "
            "a letter or digit first and last"
        )
    labels = {}
    for pair in flags.words(pairs):
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise errors.UsageError(f"--label: {pair!r} must be KEY=VALUE, such as team=web")
        labels[key] = value
    made: Json = {"name": name}
    if namespace:
        made["namespace"] = namespace
    if labels:
        made["labels"] = labels
    return made


def secret(
    name: str,
    namespace: str,
    data: Mapping[str, str],
    *,
    labels: Iterable[str] = (),
    type_: str = "",
) -> Json:
    """Return a Secret with text values."""
    made: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(name, namespace, labels),
        "stringData": dict(data),
    }
    return {**made, "type": type_} if type_ else made


def reference(
    text: str | None, kinds: Iterable[str], *, flag: str, default: str = "", local: bool = False
) -> Json:
    """Return the reference for ``[KIND/]NAME[.NAMESPACE]``, as in ``flux``.

    Raises:
        UsageError: the kind is not one of ``kinds``, or there is no name.
    """
    text = text or ""
    word, slash, rest = text.rpartition("/")
    known = {kind.lower(): kind for kind in kinds}
    kind = known.get((word if slash else default).lower())
    name, _, namespace = (rest, "", "") if local else rest.partition(".")
    if kind is None or not name:
        raise errors.UsageError(
            f"--{flag}: {text!r} must be KIND/NAME{'' if local else '[.NAMESPACE]'}, "
            f"with a KIND of {', '.join(known.values())}"
        )
    found: Json = {"kind": kind, "name": name}
    return {**found, "namespace": namespace} if namespace else found
