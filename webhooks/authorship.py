"""Record who has written the spec of an ImageUpdateAutomation (``toolkit.policy.authorship``).

The controller pushes with the credentials of a GitRepository, which may change later. Then it asks
what this user may use. The plugin reads nothing but the request.
"""

from typing import Final

from crds import IMAGE_UPDATE_AUTOMATION
from toolkit.policy import authorship
from webhooks import changes
from webhooks.plugin import Answer, Row, Rule
from webhooks.request import Request
from webhooks.services import Services


class Authorship:
    """The mutating plugin."""

    async def review(self, request: Request) -> Answer:
        """Put the record into the object, or keep the one that it had."""
        if request.object is None:
            return Answer()
        made = authorship.attributed(request.object, request.old, request.user)
        return Answer() if made is request.object else Answer(object=made)


def make(_: Services) -> Authorship:
    """Return the plugin."""
    return Authorship()


ROW: Final = Row(
    name="authorship",
    mutating=True,
    rules=(
        Rule(
            groups=(IMAGE_UPDATE_AUTOMATION.group,),
            resources=(IMAGE_UPDATE_AUTOMATION.plural,),
        ),
    ),
    make=make,
    conditions=(changes.spec_or(authorship.AUTHOR),),
)
