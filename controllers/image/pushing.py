"""Whether the author of an ImageUpdateAutomation may use the credentials that it pushes with.

The author wrote the automation when the GitRepository may have had other credentials
(``toolkit.policy.authorship``). For a GitRepository of another namespace, the ReferenceGrant is the
consent of its owner.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from crds.image_automation import ImageUpdateAutomation
from crds.source import GitRepository
from toolkit.errors import WaitingError
from toolkit.kube import reviews
from toolkit.kube.reviews import Api, User
from toolkit.policy import authorship, tenancy
from toolkit.policy.tenancy import Installation, Power

REASON: Final = "AccessDenied"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushing:
    """Asks the API server about authors."""

    api: Api
    installation: Installation

    async def require(self, obj: ImageUpdateAutomation, source: GitRepository) -> None:
        """Require that the author may use the credentials of the source.

        The message does not name them, because the source may not be the author's to read.

        Raises:
            WaitingError: the author may not; the permission may come later.
            ApiError: the API server does not answer.
        """
        namespace = obj.metadata.namespace
        author = authorship.recorded({"metadata": {"annotations": obj.metadata.annotations}})
        if author is None or source.metadata.namespace != namespace:
            return
        powers = tenancy.pushing(msgspec.to_builtins(source), namespace, self.installation)
        for power in powers:
            if not await self._holds(author, power):
                name = source.metadata.name
                raise WaitingError(
                    f"spec.sourceRef needs the credentials of GitRepository '{namespace}/{name}', "
                    f"which user '{author.name}', who has written this object, may not use: give "
                    "that user the verb 'get' or 'use' on its Secrets, and 'impersonate' or 'use' "
                    "on its ServiceAccount, or let a user who may use them write the annotation "
                    f"{authorship.AUTHOR}=me",
                    reason=REASON,
                    retry_after=obj.spec.interval_seconds,
                )

    async def _holds(self, author: User, power: Power) -> bool:
        if not author.name:
            return False
        if power.belongs_to(author.name):
            return True
        for each in power.attributes():
            spec = reviews.question(author, resourceAttributes=each)
            if (await reviews.allowed(self.api, spec)).allowed:
                return True
        return False
