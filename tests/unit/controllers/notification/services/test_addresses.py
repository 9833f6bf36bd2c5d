"""What a Provider can never be sent to is refused for good, before anything is asked."""

import asyncio
from typing import Any

import pytest

from controllers.notification.services import SERVICES
from controllers.notification.services.service import Answer, Line, Target, UnsuitableError
from tests.fakes.notices import event


class Nobody:
    """Nobody is asked."""

    async def __call__(self, *_: object, **__: object) -> Answer:
        raise AssertionError("nobody is to be asked")

    async def dial(self, host: str, port: int) -> Line:
        raise AssertionError(f"nobody is to be dialled at {host}:{port}")


_HUB = "Endpoint=sb://a.servicebus.windows.net/;EntityPath=hub"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"type": "zulip", "address": "https://a.example", "channel": "b"}, "<channel>/<topic>"),
        ({"type": "github", "address": "https://github.com/org"}, "names no repository"),
        ({"type": "gitlab", "address": "https://gitlab.com/"}, "names no repository"),
        ({"type": "azuredevops", "address": "https://dev.azure.com/org"}, "names no repository"),
        ({"type": "bitbucketserver", "address": "https://a.example/scm"}, "names no repository"),
        ({"type": "sentry", "address": "https://sentry.example/1"}, "not a DSN"),
        ({"type": "azureeventhub", "address": "a.servicebus.windows.net"}, "no hub"),
        ({"type": "azureeventhub", "address": "hub"}, "no namespace"),
        ({"type": "azureeventhub", "address": "hub", "channel": "a.example/x?"}, "no namespace"),
        ({"type": "azureeventhub", "address": "../x", "channel": "a"}, "no hub"),
        ({"type": "azureeventhub", "address": _HUB}, "nothing signs in"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(fields: dict[str, Any], why: str) -> None:
    target = Target(namespace="apps", name="p", **fields)

    with pytest.raises(UnsuitableError, match=why):
        asyncio.run(SERVICES[target.type](event(), target, Nobody()))
