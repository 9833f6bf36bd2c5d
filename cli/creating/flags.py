"""A flag of ``create``, and its path in the object.

Names and defaults are those of the ``flux`` command. A flag without a path is read by the function
of its row (``objects.Row``).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click

from cli import age
from crds import meta
from toolkit.objects import Json

Function = TypeVar("Function", bound=Callable[..., Any])
Values = Mapping[str, Any]
"""The typed values, by the flags' names with underscores."""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One option; ``at`` is the dotted path of the value, ``shape`` converts the typed value.

    ``also`` are older names in ``flux``, or names for the same there.
    """

    name: str
    help: str
    at: str = ""
    type: Any = str
    default: Any = None
    short: str = ""
    also: tuple[str, ...] = ()
    several: bool = False
    required: bool = False
    shape: Callable[[Any], Any] = _same

    @property
    def key(self) -> str:
        """Return the name under which the value is found."""
        return self.name.replace("-", "_")

    def option(self) -> Callable[[Function], Function]:
        """Return click's decorator."""
        names = [f"--{name}" for name in (self.name, *self.also)]
        words = [*names, *([f"-{self.short}"] if self.short else []), self.key]
        if self.type is bool:
            return click.option(*words, is_flag=True, default=bool(self.default), help=self.help)
        # For click, a default of None is a value, so the option would never be required.
        given = {} if self.default is None else {"default": self.default}
        return click.option(
            *words,
            type=self.type,
            **given,
            multiple=self.several,
            required=self.required,
            show_default=self.default is not None,
            help=self.help,
            metavar=None if isinstance(self.type, click.ParamType) else "TEXT",
        )


def options(flags: Iterable[Flag]) -> Callable[[Function], Function]:
    """Add the flags to a command, in their order."""

    def add(function: Function) -> Function:
        for flag in reversed(tuple(flags)):
            function = flag.option()(function)
        return function

    return add


def fields(flags: Iterable[Flag], values: Values) -> Json:
    """Return the typed values at the flags' paths."""
    made: Json = {}
    for flag in flags:
        value = values.get(flag.key)
        if flag.at and value not in (None, "", (), False):
            put(made, flag.at, flag.shape(value))
    return made


def put(obj: Json, at: str, value: Any) -> None:
    """Write a value at a dotted place."""
    *above, last = at.split(".")
    for step in above:
        obj = obj.setdefault(step, {})
    obj[last] = value


def duration(seconds: float) -> str:
    """Write seconds as Go does: ``1m0s``."""
    return meta.format_duration(seconds)


def words(values: Iterable[str]) -> list[str]:
    """Take lists with commas apart, as ``flux`` does."""
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


def lines(values: Iterable[str]) -> str:
    """Write one word a line."""
    return "\n".join(words(values))


def named(name: str) -> Json:
    """Return a reference to an object of the same namespace."""
    return {"name": name}


def secret_ref(
    text: str, *, name: str = "secret-ref", at: str = "secretRef", also: tuple[str, ...] = ()
) -> Flag:
    """Return a flag that names a Secret; ``text`` is its help."""
    return Flag(name=name, at=at, also=also, shape=named, help=text)


INTERVAL: Final = Flag(
    name="interval",
    at="interval",
    type=age.DURATION,
    default="1m",
    shape=duration,
    help="How often to reconcile.",
)
FETCH_TIMEOUT: Final = Flag(
    name="fetch-timeout",
    at="timeout",
    type=age.DURATION,
    shape=duration,
    help="How long one fetch may take.",
)
IGNORE_PATHS: Final = Flag(
    name="ignore-paths", at="ignore", several=True, shape=lines, help="Paths to leave out."
)
USERNAME: Final = Flag(name="username", short="u", help="User name for basic authentication.")
PASSWORD: Final = Flag(name="password", short="p", help="Password for basic authentication.")
CA_FILE: Final = Flag(
    name="ca-file",
    also=("ca-crt-file",),
    type=click.Path(),
    help="File with CA certificates to trust.",
)
CERT_FILE: Final = Flag(
    name="cert-file",
    also=("tls-crt-file",),
    type=click.Path(),
    help="File with a client certificate.",
)
KEY_FILE: Final = Flag(
    name="key-file",
    also=("tls-key-file",),
    type=click.Path(),
    help="File with the key of the client certificate.",
)
SSH: Final = (
    Flag(
        name="ssh-key-algorithm",
        type=click.Choice(("rsa", "ecdsa", "ed25519")),
        default="ecdsa",
        help="Algorithm of a new key.",
    ),
    Flag(name="ssh-rsa-bits", type=int, default=2048, help="Size of a new RSA key."),
    Flag(
        name="ssh-ecdsa-curve",
        type=click.Choice(("p256", "p384", "p521")),
        default="p384",
        help="Curve of a new ECDSA key.",
    ),
    Flag(name="private-key-file", type=click.Path(), help="File with an SSH key to use."),
    Flag(
        name="known-hosts-file",
        type=click.Path(),
        help="File with the SSH host keys; the command never takes them from the host itself.",
    ),
)
SHARED: Final = (
    Flag(name="label", several=True, help="KEY=VALUE to label the object with."),
    Flag(name="export", type=bool, help="Print YAML, and contact no cluster."),
)
"""The flags that every `create` has."""
