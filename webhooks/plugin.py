"""What a plugin is: it answers requests, or raises to deny them.

A plugin is one entry of a webhook configuration, asked at ``/admit/<name>``, or shares one with
others (``Row.webhook``). It gets the request as a value and returns an ``Answer``; the server turns
that into a patch, and errors into denials:

=========================  ====  ==============================================================
raised                     code  meaning
=========================  ====  ==============================================================
``DeniedError``            its   the plugin's own words, code and causes
``AccessDeniedError``      403   a policy of ``toolkit.policy`` forbids it
``StalledError``           422   the object is wrong
``WaitingError``           503   not now
``TransientError``         503   it could not be found out; the user may try again
the deadline passes        504   likewise
=========================  ====  ==============================================================

Anything else that is raised is a bug, and denies with 500. Nothing is ever let in by an error,
unless the plugin fails open (``Row.fail_open``): it has nothing to say then.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Final, Literal, Protocol

from toolkit.errors import PenstockError
from toolkit.kube import rbac
from toolkit.kube.errors import Cause
from toolkit.objects import GroupVersionKind, Json
from webhooks.request import Operation, Request
from webhooks.services import Services

__all__ = [
    "INSTALLED",
    "Answer",
    "Cause",
    "Condition",
    "DeniedError",
    "Plugin",
    "Row",
    "Rule",
]

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Yes. ``object`` is the whole changed object, or None to leave it as it is.

    ``audit`` keys get the prefix of the webhook's name from the API server; neither they nor the
    warnings may hold anything that the request does not.
    """

    object: Json | None = None
    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


class DeniedError(PenstockError):
    """No, in the plugin's words: lower case, names object, field, rule and remedy.

    ``code`` and ``reason`` are those of the ``meta/v1.Status`` that the user gets; the reason
    follows from the code where it is not given. ``audit`` reaches the audit log with the denial.
    """

    default_reason: ClassVar[str] = "Forbidden"
    _REASONS: ClassVar[Mapping[int, str]] = MappingProxyType(
        {
            400: "BadRequest",
            403: "Forbidden",
            409: "Conflict",
            422: "Invalid",
            429: "TooManyRequests",
            500: "InternalError",
            503: "ServiceUnavailable",
            504: "Timeout",
        }
    )

    def __init__(
        self,
        message: str,
        *,
        code: int = 403,
        reason: str | None = None,
        causes: tuple[Cause, ...] = (),
        audit: Mapping[str, str] = _NOTHING,
    ) -> None:
        super().__init__(message, reason=reason or self._REASONS.get(code))
        self.code = code
        self.causes = causes
        self.audit = audit


class Plugin(Protocol):
    """Decides about requests. One instance serves all of them, many at a time."""

    async def review(self, request: Request) -> Answer:
        """Allow the request, perhaps with a changed object, or raise to deny it.

        Only mutating plugins may change the object. Blocking work must run in a thread; the server
        cancels the call at ``request.deadline``.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The requests for the plugin (``admissionregistration.k8s.io/v1 RuleWithOperations``).

    Name the version for kinds that have several: the API server converts objects in other versions
    to it (``matchPolicy: Equivalent``), so that an old version is no bypass. For Penstock's own
    kinds, ``("*",)`` is replaced by the stored version of each. ``resources`` are plurals,
    ``plural/subresource``, ``*`` or ``*/*``.
    """

    groups: tuple[str, ...]
    versions: tuple[str, ...] = ("*",)
    resources: tuple[str, ...]
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    scope: Literal["Namespaced", "Cluster", "*"] = "Namespaced"


INSTALLED: Final = "$(RUNTIME_NAMESPACE)"


@dataclass(frozen=True, slots=True)
class Condition:
    """A CEL expression that must hold for the plugin to be asked (``matchConditions``).

    An error of an expression is a denial, so each expression guards all it reads by itself:
    ``has(object.spec) && …``, and by ``type`` where a value may be null, as those of a Secret;
    ``object`` is null on DELETE, ``oldObject`` on CREATE. ``INSTALLED`` in it becomes the namespace
    that this process is installed in.
    """

    name: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One plugin of the table ``webhooks.plugins.PLUGINS``.

    - ``make`` is called once, before the process serves; it requests caches.
    - ``webhook``: plugins with the same one share a request (``webhooks.joint``).
    - ``fail_open``: requests are allowed if the plugin fails, and while no replica answers.
    - ``everywhere``: the plugin also checks Penstock's own namespace and the cluster's. Rules for
      Penstock's own kinds always do. Others skip these namespaces, so that a cluster can start and
      recover without this process.
    - ``timeout`` is in seconds, at most 30.
    - ``permissions`` are the cluster permissions for the plugin, including to watch ``needed``: the
      kind of policy without which the plugin allows everything, and is not called.
    - ``discloses``: answers contain more than the request. The plugin is only enabled if callers
      prove that they are API servers, and the component ``decryption`` grants its ``permissions``.
    - ``to_the_end``: the plugin is also called for metadata of objects that are being deleted; its
      own conditions must then allow removing finalizers.
    """

    name: str
    mutating: bool = False
    rules: tuple[Rule, ...]
    make: Callable[[Services], Plugin]
    conditions: tuple[Condition, ...] = ()
    webhook: str = ""
    object_selector: Json | None = None
    namespace_selector: Json | None = None
    reinvocation: bool = False
    timeout: int = 10
    fail_open: bool = False
    everywhere: bool = False
    needed: GroupVersionKind | None = None
    discloses: bool = False
    to_the_end: bool = False
    permissions: tuple[rbac.Rule, ...] = ()
