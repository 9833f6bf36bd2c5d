"""The options by which a user chooses an installation, for every command that makes one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cli import loading
from cli.installing import components

if TYPE_CHECKING:
    from cli.installing import manifests
else:
    manifests = loading.Later("cli.installing.manifests")

Function = TypeVar("Function", bound=Callable[..., Any])

_LEVELS: Final = ("trace", "debug", "info", "error")
_OPTIONS: Final = (
    click.option(
        "--components",
        metavar="NAMES",
        default="",
        help=f"Components besides the base, with commas: {', '.join(components.NAMES)}.",
    ),
    click.option("--image", default="", metavar="REFERENCE", help="Image of all processes."),
    click.option(
        "--image-pull-secret",
        "pull_secret",
        default="",
        metavar="NAME",
        help="Secret of the namespace with credentials for the image.",
    ),
    click.option(
        "--toleration-keys",
        "tolerations",
        default="",
        metavar="KEYS",
        help="Keys of taints that the pods tolerate, with commas.",
    ),
    click.option("--log-level", type=click.Choice(_LEVELS), default=None, help="Of all processes."),
)


def options(function: Function) -> Function:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def choice(arguments: dict[str, Any], *, namespace: str) -> "manifests.Choice":
    """Take the options out of a command's arguments."""
    return manifests.Choice(
        namespace=namespace,
        components=_words(arguments.pop("components")),
        image=arguments.pop("image"),
        pull_secret=arguments.pop("pull_secret"),
        tolerations=_words(arguments.pop("tolerations")),
        log_level=arguments.pop("log_level") or "",
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in text.split(","))))
