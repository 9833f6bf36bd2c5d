"""The options by which a user chooses an installation, for every command that makes one."""

import re
from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cli import errors, loading, progress
from cli.creating.flags import words
from cli.installing import components
from toolkit import dnsnames

if TYPE_CHECKING:
    from cli.installing import manifests
else:
    manifests = loading.Later("cli.installing.manifests")

Function = TypeVar("Function", bound=Callable[..., Any])

_EXTRA: Final = frozenset(
    {"image-reflector-controller", "image-automation-controller", "source-watcher"}
)
"""Components that Flux does not install by default."""
_LEVELS: Final = ("trace", "debug", "info", "error")
_REGISTRY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)*/?")
_OPTIONS: Final = (
    click.option(
        "--components",
        metavar="NAMES",
        default="",
        help=f"Components besides the base, with commas: {', '.join(components.NAMES)}.",
    ),
    click.option(
        "--components-extra",
        "extra",
        metavar="NAMES",
        default="",
        hidden=True,
        help="More of them: what Flux calls extra is in the base.",
    ),
    click.option("--image", default="", metavar="REFERENCE", help="Image of all processes."),
    click.option(
        "--registry",
        default="",
        metavar="HOST/PATH",
        help="Registry and path of the image, without its name.",
    ),
    click.option(
        "--image-pull-secret",
        "pull_secret",
        default="",
        metavar="NAME",
        help="Secret of the namespace with credentials for the image.",
    ),
    click.option(
        "--cluster-domain",
        "domain",
        default="cluster.local",
        show_default=True,
        help="Domain of the cluster's Services.",
    ),
    click.option(
        "--network-policy/--no-network-policy",
        "policies",
        default=True,
        show_default=True,
        help="Install NetworkPolicies that restrict access to the pods.",
    ),
    click.option(
        "--watch-all-namespaces/--watch-own-namespace",
        "all_namespaces",
        default=True,
        show_default=True,
        help="Reconcile the objects of all namespaces, or only of the controllers' own.",
    ),
    click.option(
        "--toleration-keys",
        "tolerations",
        default="",
        metavar="KEYS",
        help="Keys of taints that the pods tolerate, with commas.",
    ),
    click.option(
        "--log-level", type=click.Choice(_LEVELS), default=None, help="Log level of all processes."
    ),
)


_ANEW: Final = (
    click.option(
        "--registry-creds",
        "creds",
        default="",
        metavar="USER:PASSWORD",
        help="Create the Secret of --image-pull-secret with this login.",
    ),
    click.option(
        "-v",
        "--version",
        "wanted_version",
        default="",
        hidden=True,
        help="Only the version of this command.",
    ),
)


def options(function: Function) -> Function:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def anew(function: Function) -> Function:
    """Add the options of commands that only install."""
    for option in reversed(_ANEW):
        function = option(function)
    return function


def choice(arguments: dict[str, Any], *, namespace: str) -> "manifests.Choice":
    """Return the choice from a command's options, and remove them from ``arguments``.

    Raises:
        UsageError: this command cannot install one of the options.
    """
    _require_version(arguments.pop("wanted_version", ""))
    for name, flag, pattern in (
        ("domain", "--cluster-domain", dnsnames.SUBDOMAIN),
        ("registry", "--registry", _REGISTRY),
    ):
        if arguments[name] and not pattern.fullmatch(arguments[name]):
            raise errors.UsageError(f"{flag}: {arguments[name]!r} is not a name")
    if arguments["registry"] and arguments["image"]:
        raise errors.UsageError("--image names a registry already: leave --registry out")
    creds = _creds(arguments.pop("creds", ""))
    if creds and not (
        arguments["pull_secret"] and (arguments["registry"] or "/" in arguments["image"])
    ):
        raise errors.UsageError(
            "--registry-creds needs the Secret's name in --image-pull-secret, and the registry in "
            "--registry or --image"
        )
    return manifests.Choice(
        namespace=namespace,
        components=_components(arguments.pop("components"), arguments.pop("extra")),
        image=arguments.pop("image"),
        registry=arguments.pop("registry"),
        pull_secret=arguments.pop("pull_secret"),
        creds=creds,
        domain=arguments.pop("domain"),
        policies=arguments.pop("policies"),
        all_namespaces=arguments.pop("all_namespaces"),
        tolerations=tuple(words((arguments.pop("tolerations"),))),
        log_level=arguments.pop("log_level") or "",
    )


def _components(*texts: str) -> tuple[str, ...]:
    """Return the components besides the base; the base contains all components of Flux."""
    named = words(texts)
    of_flux = [name for name in named if name in components.OF_FLUX]
    missing = sorted(set(components.OF_FLUX) - {*of_flux, *_EXTRA})
    if of_flux and missing and texts[0]:
        progress.waiting(f"all controllers are installed, also {', '.join(missing)}")
    return tuple(dict.fromkeys(name for name in named if name not in components.OF_FLUX))


def _require_version(wanted: str) -> None:
    own = metadata.version("penstock")
    if wanted.removeprefix("v") not in ("", "latest", own):
        raise errors.UsageError(
            f"--version {wanted}: this command installs v{own}: use the command of the version "
            "that you want, or name an image with --image"
        )


def _creds(text: str) -> tuple[str, str] | None:
    user, _, password = text.partition(":")
    if text and not (user and password):
        raise errors.UsageError("--registry-creds must be USER:PASSWORD")
    return (user, password) if text else None
