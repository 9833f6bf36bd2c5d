"""Rules common to kinds that fetch: ignore rules, plain HTTP, unencrypted credentials."""

from collections.abc import Callable, Iterator
from typing import Final, Protocol
from urllib.parse import urlsplit

from crds.meta import LocalObjectReference
from toolkit.artifact.ignore import Ignore
from webhooks.validation.rule import Fault, Rule, WithSpec, read, when


class _Ignoring(Protocol):
    @property
    def ignore(self) -> str: ...


class _Addressed(Protocol):
    @property
    def url(self) -> str: ...
    @property
    def secret_ref(self) -> LocalObjectReference | None: ...


class _Insecure(Protocol):
    @property
    def insecure(self) -> bool: ...
    @property
    def secret_ref(self) -> LocalObjectReference | None: ...


class _Lent(_Insecure, Protocol):
    @property
    def provider(self) -> str: ...


def host(url: str) -> str:
    """Return the host of a URL; empty if it has none or is malformed."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return ""
    return parts.hostname or ""


def registry_url(url: str, parse: Callable[[str], object]) -> Iterator[Fault]:
    """Yield a fault if a URL names no repository in a registry."""
    if "@" in url:
        # the parser's message quotes the URL, which may hold a password
        yield Fault("spec.url", "it holds user information, a tag or a digest")
    else:
        yield from read("spec.url", url, parse)


def _ignore(obj: WithSpec[_Ignoring]) -> Iterator[Fault]:
    yield from read("spec.ignore", obj.spec.ignore, Ignore.from_rules, shown="")


def _in_url(obj: WithSpec[_Addressed]) -> Iterator[Fault]:
    authority = obj.spec.url.partition("://")[2].partition("/")[0]
    password = ":" in authority.rpartition("@")[0]
    # the value stays out, because it holds the password
    yield from when(
        password, "spec.url", "it contains a password, which every reader of the object sees"
    )


def _clear(obj: WithSpec[_Addressed]) -> Iterator[Fault]:
    sent = obj.spec.url.startswith("http://") and obj.spec.secret_ref is not None
    yield from when(sent, "spec.url", "the credentials of spec.secretRef are sent in the clear")


def _insecure(obj: WithSpec[_Insecure]) -> Iterator[Fault]:
    sent = _plain(obj.spec) and obj.spec.secret_ref is not None
    yield from when(
        sent, "spec.insecure", "the credentials of spec.secretRef are sent in the clear"
    )


def _lent(obj: WithSpec[_Lent]) -> Iterator[Fault]:
    spec = obj.spec
    lent = _plain(spec) and spec.provider != "generic" and spec.secret_ref is None
    why = f"the credentials of '{spec.provider}' would be sent in the clear"
    yield from when(lent, "spec.insecure", why)


def _plain(spec: _Insecure) -> bool:
    # a HelmRepository looks at the field only if it is a registry
    return spec.insecure and getattr(spec, "type", "oci") == "oci"


IGNORE: Final[Rule[WithSpec[_Ignoring]]] = Rule(
    name="ignore-rules",
    fields=("spec.ignore",),
    demands="each line is a rule of .gitignore, and there are at most 2000",
    remedy="see gitignore(5): close brackets, and escape a backslash by another one",
    find=_ignore,
)
PASSWORD: Final[Rule[WithSpec[_Addressed]]] = Rule(
    name="url-password",
    fields=("spec.url",),
    demands="it holds no password",
    remedy="put it into a Secret, and name that in spec.secretRef",
    find=_in_url,
    refuses=False,
)
CLEAR: Final[Rule[WithSpec[_Addressed]]] = Rule(
    name="credentials-in-clear",
    fields=("spec.url", "spec.secretRef"),
    demands="credentials are sent over TLS",
    remedy="use https://",
    find=_clear,
    refuses=False,
)
INSECURE: Final[Rule[WithSpec[_Insecure]]] = Rule(
    name="credentials-in-clear",
    fields=("spec.insecure", "spec.secretRef"),
    demands="credentials are sent over TLS",
    remedy="remove spec.insecure, or the credentials",
    find=_insecure,
    refuses=False,
)
LENT: Final[Rule[WithSpec[_Lent]]] = Rule(
    name="insecure-provider",
    fields=("spec.insecure", "spec.provider"),
    demands="credentials of a cloud are sent over TLS only",
    remedy="remove spec.insecure, or use the provider generic",
    find=_lent,
)
