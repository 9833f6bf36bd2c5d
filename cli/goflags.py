"""Flags as the programs of Kubernetes take them, before click sees the words.

Scripts for ``flux`` and ``kubectl`` say ``--watch=false``, put the flags that all commands share
before the verb, and give connection flags such as ``--server`` to any command. These are read here:

- Of a flag without a value, ``=true`` and ``=false`` are taken.
- Shared flags before the verb go behind it, as the flags of a group's commands do.
- Shared flags that a command does not have are taken away; ``current`` gives those with an effect.

A command's own flag of the same name wins.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import click

_KEY: Final = "cli.goflags"
_BOOLEANS: Final = MappingProxyType({"true": True, "1": True, "false": False, "0": False})

CONNECTING: Final[Mapping[str, bool]] = MappingProxyType(
    {
        # a row of the kubeconfig in place of the context's
        "--cluster": True,
        "--user": True,
        # one field of it
        "--server": True,
        "--tls-server-name": True,
        "--certificate-authority": True,
        "--insecure-skip-tls-verify": False,
        "--token": True,
        "--client-certificate": True,
        "--client-key": True,
        "--proxy-url": True,
        # the identity for impersonation, besides --as and --as-group
        "--as-uid": True,
        "--as-user-extra": True,
    }
)
"""Flags for the connection; the value tells whether the flag takes a value."""

IGNORED: Final[Mapping[str, bool]] = MappingProxyType(
    {
        "--cache-dir": True,  # discovery is not cached on the disk
        "--disable-compression": False,  # no answer is compressed
        "--kube-api-burst": True,  # the API server's Priority and Fairness sets the pace
        "--kube-api-qps": True,
        "--ns-follows-kube-context": False,  # it does in any case
        "--verbose": False,
    }
)
"""Flags of ``flux`` that have no effect here."""

OF_VERBS: Final[Mapping[str, Mapping[str, bool]]] = MappingProxyType(
    {
        # kinds without the field take the flag, too
        "create": {"--interval": True, "--fetch-timeout": True},
        "push": {"--debug": False},  # there is no library whose log it would show
    }
)
"""Flags of all commands of a verb of ``flux``, which have no effect where a command lacks them."""

_SESSION: Final[Mapping[str, bool]] = MappingProxyType(
    dict.fromkeys(
        ("--kubeconfig", "--context", "--namespace", "-n", "--timeout", "--as", "--as-group"), True
    )
)
"""Flags of all commands that contact a cluster; other commands ignore them."""
_SHARED: Final[Mapping[str, bool]] = {**CONNECTING, **IGNORED, **_SESSION}


@dataclass(frozen=True, slots=True)
class _Given:
    """A shared flag as it was typed."""

    name: str
    value: str
    words: tuple[str, ...]


def forward(args: Sequence[str]) -> list[str]:
    """Return the words with the shared flags before the verb moved to the end.

    Raises:
        UsageError: (click) the value of a flag is missing.
    """
    found = _behind(args, {}, _SHARED)
    return list(args) if found is None else found[1]


def adapt(context: click.Context, command: click.Command, args: Sequence[str]) -> list[str]:
    """Return the words of a command as click reads them, without shared flags that it lacks.

    The words of a group have the flags of its commands behind the name of the command.
    """
    own = _options(command)
    taken: dict[str, list[str]] = context.find_root().meta.setdefault(_KEY, {})
    verb = [*context.command_path.split(), "", ""][1]
    shared = {**_SHARED, **OF_VERBS.get(verb, {})}
    reading = _Reading(own, shared, taken)
    if isinstance(command, click.Group) and args[:1] and args[0][:1] == "-":
        arity = {name: _takes_value(option) for name, option in own.items()}
        found = _behind(args, arity, {**_below(command), **shared})
        if found is not None:
            return [*reading.words(found[0]), *found[1]]
    elif isinstance(command, click.Group):
        return list(args)
    return list(reading.words(args))


def _behind(
    args: Sequence[str], own: Mapping[str, bool], movable: Mapping[str, bool]
) -> tuple[list[str], list[str]] | None:
    """Return a group's own flags, and the rest with movable flags at the end.

    Returns None if no command follows the flags.
    """
    known = {**movable, **own}
    rest, kept, moved = list(args), list[str](), list[str]()
    while rest and rest[0][:1] == "-":
        name, equals, _ = rest[0].partition("=")
        if name not in known:
            return None
        size = 2 if known[name] and not equals else 1
        (kept if name in own else moved).extend(rest[:size])
        del rest[:size]
    if not rest:
        return None
    end = rest.index("--") if "--" in rest else len(rest)
    return kept, [*rest[:end], *moved, *rest[end:]]


def _options(command: click.Command) -> dict[str, click.Option]:
    return {
        name: option
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }


def _takes_value(option: click.Option) -> bool:
    return not (option.is_flag or option.count)


def _below(group: click.Group) -> dict[str, bool]:
    """Return the flags of all commands of a group, each with whether it takes a value."""
    found: dict[str, bool] = {}
    for command in group.commands.values():
        if isinstance(command, click.Group):
            found |= _below(command)
        found |= {name: _takes_value(option) for name, option in _options(command).items()}
    return found


def current(context: click.Context | None = None) -> Mapping[str, Sequence[str]]:
    """Return the connection flags of this run by name; one without a value has an empty one."""
    context = context or click.get_current_context(silent=True)
    found: Mapping[str, Sequence[str]] = context.find_root().meta.get(_KEY, {}) if context else {}
    return found


@dataclass(frozen=True, slots=True)
class _Reading:
    """The flags of a command, and the connection flags that were removed."""

    options: Mapping[str, click.Option]
    shared: Mapping[str, bool]
    taken: dict[str, list[str]]

    def words(self, args: Sequence[str]) -> Iterator[str]:
        """Yield the words as click reads them, and keep connection flags."""
        rest = list(args)
        while rest:
            name, equals, value = rest[0].partition("=")
            if rest[0] == "--":
                yield from rest
                return
            option = self.options.get(name)
            if option is not None and equals and option.is_flag:
                yield from _switch(option, name, value)
                rest.pop(0)
            elif option is not None:
                yield rest.pop(0)
                if not equals and _takes_value(option) and rest:
                    yield rest.pop(0)
            elif given := _first(rest, self.shared):
                self._keep(given)
                del rest[: len(given.words)]
            else:
                yield rest.pop(0)

    def _keep(self, given: _Given) -> None:
        if given.name in CONNECTING and given.value != "false":
            self.taken.setdefault(given.name, []).append(given.value)


def _switch(option: click.Option, name: str, value: str) -> Iterator[str]:
    """Yield the equivalent words for click; nothing if the flag is off already."""
    wanted = _BOOLEANS.get(value)
    if wanted is None:
        yield f"{name}={value}"  # click tells that it takes no value
    elif wanted:
        yield name
    elif option.secondary_opts:
        yield option.secondary_opts[0]


def _first(args: Sequence[str], shared: Mapping[str, bool]) -> _Given | None:
    """Return the shared flag that the words begin with."""
    name, equals, value = args[0].partition("=")
    if name not in shared:
        return None
    if equals or not shared[name]:
        return _Given(name, value, tuple(args[:1]))
    if len(args) == 1:
        raise click.UsageError(f"Option '{name}' requires an argument.")
    return _Given(name, args[1], tuple(args[:2]))
