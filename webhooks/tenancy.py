"""Users gain no permissions through an object, and cannot evade the rules of their namespace.

``TENANCY``: a user who writes a Kustomization or HelmRelease must be allowed to use the account
that it acts as, and the kubeconfig and the keys that it uses. This takes the verbs ``impersonate``
or ``use`` on the service account, and ``get`` or ``use`` on a Secret. The account itself always
may, so that a Kustomization can apply others. The same holds for the cloud accounts of sources, and
for every Secret that an object names (``toolkit.policy.secretrefs``): credentials, certificates,
proxies, keys that sign commits, and keys of signers, also in the namespace of a chart's source.

An ImageUpdateAutomation pushes with the credentials of the GitRepository that it names, so a user
who writes it must be allowed to use these. The plugin judges the GitRepository as it is now.

A ConfigMap that names another cluster must name an account, unless flags do: no object enters that
cluster as the controller. The plugin judges the ConfigMap as it is now, and the reconciler judges
it again when it changes.

``LABELS``: labels of namespaces that begin with ``policy.penstock.dev/`` may only be changed with
``update`` on the resource ``namespaces`` of the group ``policy.penstock.dev``, through every
subresource. Tenants may often label their namespaces, and policies depend on these labels.
"""

import asyncio
import contextlib
from typing import Final

from crds import (
    BUCKET,
    GIT_REPOSITORY,
    HELM_CHART,
    HELM_RELEASE,
    HELM_REPOSITORY,
    IMAGE_REPOSITORY,
    IMAGE_UPDATE_AUTOMATION,
    KUSTOMIZATION,
    OCI_REPOSITORY,
    PROVIDER,
    RECEIVER,
)
from crds.policy_parts import GROUP
from toolkit.errors import AccessDeniedError, TransientError
from toolkit.kube import rbac, remote
from toolkit.kube.client import Client
from toolkit.kube.errors import KubeConfigError, NotFoundError
from toolkit.kube.remote import Entry
from toolkit.kube.secrets import CONFIG_MAP, Secrets
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.policy import tenancy
from toolkit.policy.tenancy import PROTECTED, Installation, Power
from webhooks import changes, joint
from webhooks.authorizer import Authorizer
from webhooks.namespaces import Namespaces
from webhooks.plugin import Answer, Cause, Condition, DeniedError, Row, Rule
from webhooks.request import Request, User
from webhooks.services import Services

_GIT: Final = GroupVersionKind(*GIT_REPOSITORY.gvk)
_APPLIERS: Final = frozenset({KUSTOMIZATION.kind, HELM_RELEASE.kind})


class Tenancy:
    """Asks the API server about the requester, for everything that an object borrows."""

    def __init__(  # noqa: PLR0913 - the inputs of the plugin
        self,
        *,
        authorize: Authorizer,
        namespaces: Namespaces,
        installation: Installation,
        secrets: Secrets,
        entry: Entry,
        client: Client,
        proven: bool,
    ) -> None:
        self._proven = proven
        self._client = client
        self._authorize = authorize
        self._namespaces = namespaces
        self._installation = installation
        self._secrets = secrets
        self._entry = entry

    async def review(self, request: Request) -> Answer:
        """Require that the requester has the permissions that the object uses."""
        obj = request.object
        if obj is None or not tenancy.lends(obj, request.old):
            return Answer()
        if request.gvk.kind in _APPLIERS:
            await self._require_account(request, obj)
        # Off the loop: a list may have hundreds of thousands of entries.
        powers = await asyncio.to_thread(tenancy.powers, obj, request.namespace, self._installation)
        lacking = [power for power in powers if not await self._holds(request.user, power)]
        if lacking:
            # Unproven callers learn only the verdict: the message does not depend on the missing
            # permission.
            told = lacking if self._proven else powers
            raise _denied(
                [(each.field, each.refusal(request.user.name, named=self._proven)) for each in told]
            )
        await self._require_push(request, obj)
        await self._require_entry(request, obj)
        return Answer()

    async def _require_push(self, request: Request, obj: Json) -> None:
        """Require the right to use the credentials that an automation pushes with."""
        name = tenancy.pushes_to(obj, request.namespace)
        if not name:
            return
        repository: Json | None = None
        with contextlib.suppress(NotFoundError):
            repository = await self._client.get(_GIT, name, request.namespace)
        powers = tenancy.pushing(repository, request.namespace, self._installation)
        for power in powers:
            if not await self._holds(request.user, power):
                # The message does not depend on the GitRepository, which may not be the user's to
                # read.
                raise _denied([("spec.sourceRef", _no_push(request.user.name, name))])

    async def _require_entry(self, request: Request, obj: Json) -> None:
        """Deny a ConfigMap for another cluster that names no account, if flags do not allow it."""
        name = str(dig(obj, "spec", "kubeConfig", "configMapRef", "name", default=""))
        if not name:
            return
        try:
            data = await self._secrets.data(CONFIG_MAP, request.namespace, name, reason="")
        except TransientError as error:
            if isinstance(error.__cause__, NotFoundError):
                return
            raise
        try:
            self._entry.account(name, remote.texts(data.values))
        except KubeConfigError as error:
            field = "spec.kubeConfig.configMapRef"
            raise _denied([(field, AccessDeniedError(f"{field}: {error}"))]) from error

    async def _require_account(self, request: Request, obj: Json) -> None:
        named = str(dig(obj, "spec", "serviceAccountName", default=""))
        try:
            tenancy.require_account(
                await self._namespaces.labels(request.namespace),
                account=named or self._installation.default_service_account,
                remote=bool(dig(obj, "spec", "kubeConfig")),
            )
        except AccessDeniedError as error:
            raise _denied([("spec.serviceAccountName", error)]) from error

    async def _holds(self, user: User, power: Power) -> bool:
        if power.belongs_to(user.name):
            return True
        for each in power.attributes():
            if await self._authorize.allowed(user, **each):
                return True
        return False


class NamespaceLabels:
    """Keeps the labels that policies go by."""

    def __init__(self, authorize: Authorizer) -> None:
        self._authorize = authorize

    async def review(self, request: Request) -> Answer:
        """Allow changes of protected labels only to users with the permission."""
        changed = tenancy.protected(request.object or {}, request.old) if request.object else ()
        if not changed:
            return Answer()
        if await self._authorize.allowed(
            request.user,
            verb="update",
            group=GROUP,
            resource="namespaces",
            namespace="",
            name=request.name,
        ):
            return Answer()
        named = ", ".join(sorted(changed))
        raise DeniedError(
            f"metadata.labels: policies use {named}, which user '{request.user.name}' may not "
            f"change: ask for the verb 'update' on namespaces.{GROUP} '{request.name}'",
            causes=tuple(
                Cause(
                    reason="FieldValueForbidden",
                    field=f"metadata.labels[{label}]",
                    message="it is protected",
                )
                for label in sorted(changed)
            ),
        )


def _no_push(user: str, name: str) -> AccessDeniedError:
    return AccessDeniedError(
        f"spec.sourceRef needs the credentials of GitRepository '{name}', which user '{user}' may"
        " not use: ask for the verb 'get' or 'use' on the Secrets that it names, and for"
        " 'impersonate' or 'use' on its ServiceAccount; if the GitRepository does not exist yet,"
        " create it first"
    )


def _denied(refusals: list[tuple[str, AccessDeniedError]]) -> DeniedError:
    return DeniedError(
        "; ".join(str(error) for _, error in refusals),
        causes=tuple(
            Cause(reason="FieldValueForbidden", field=field, message=str(error))
            for field, error in refusals
        ),
    )


def make(services: Services) -> Tenancy:
    """Return the plugin with the services of the process."""
    options = services.options
    return Tenancy(
        authorize=services.authorize,
        namespaces=Namespaces(services),
        installation=Installation(
            namespace=services.namespace,
            default_service_account=options.default_service_account,
            default_decryption_service_account=options.default_decryption_service_account,
        ),
        secrets=services.secrets,
        entry=Entry(
            default_service_account=options.default_kubeconfig_service_account,
            shared_identity=options.shared_kubeconfig_identity,
        ),
        client=services.client,
        proven=services.proven,
    )


def make_labels(services: Services) -> NamespaceLabels:
    """Return the plugin with the services of the process."""
    return NamespaceLabels(services.authorize)


_NEW: Final = "(has(object.metadata.labels) ? object.metadata.labels : {})"
_OLD: Final = (
    "(oldObject != null && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {})"
)
_CHANGED: Final = (
    f"{_NEW}.exists(k, k.startsWith('{PROTECTED}') && (!(k in {_OLD}) || {_OLD}[k] != {_NEW}[k]))"
    f" || {_OLD}.exists(k, k.startsWith('{PROTECTED}') && !(k in {_NEW}))"
)

TENANCY: Final = Row(
    name="tenancy",
    rules=(
        Rule(groups=(KUSTOMIZATION.group,), resources=(KUSTOMIZATION.plural,)),
        Rule(groups=(HELM_RELEASE.group,), resources=(HELM_RELEASE.plural,)),
        Rule(groups=(PROVIDER.group,), resources=(PROVIDER.plural, RECEIVER.plural)),
        Rule(
            groups=(GIT_REPOSITORY.group,),
            resources=(
                GIT_REPOSITORY.plural,
                OCI_REPOSITORY.plural,
                BUCKET.plural,
                HELM_REPOSITORY.plural,
                HELM_CHART.plural,
            ),
        ),
        Rule(
            groups=(IMAGE_REPOSITORY.group,),
            resources=(IMAGE_REPOSITORY.plural, IMAGE_UPDATE_AUTOMATION.plural),
        ),
    ),
    make=make,
    conditions=(changes.SPEC,),
    webhook=joint.SPECS,
    permissions=(
        rbac.Rule(groups=("",), resources=("configmaps",), verbs=("get",)),
        rbac.Rule(
            groups=(GIT_REPOSITORY.group,), resources=(GIT_REPOSITORY.plural,), verbs=("get",)
        ),
    ),
)
LABELS: Final = Row(
    name="namespace-labels",
    rules=(
        Rule(
            groups=("",),
            versions=("v1",),
            resources=("namespaces", "namespaces/status", "namespaces/finalize"),
            scope="Cluster",
        ),
    ),
    make=make_labels,
    # The labels still rule objects in a namespace that is being deleted.
    to_the_end=True,
    # Other writes to namespaces, and their deletion, are not sent.
    conditions=(Condition(name="changes-protected-labels", expression=_CHANGED),),
)
