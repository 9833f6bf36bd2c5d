"""The services: a row for each type of Provider, and a module for each format.

Input: a ``Notice`` and a ``Target``. Output: HTTP requests through ``Ask``. A service raises
``HttpError`` if a request failed, and ``UnsuitableError`` if it can never accept the event.
``toolkit.notification.demands`` has the fields that each type needs.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controllers.notification.services.chat import (
    cards,
    discord,
    googlechat,
    lark,
    matrix,
    rocket,
    slack,
    telegram,
    webex,
    zulip,
)
from controllers.notification.services.git import (
    azuredevops,
    bitbucket,
    bitbucketserver,
    comments,
    dispatch,
    gitea,
    github,
    gitlab,
)
from controllers.notification.services.paging import (
    alertmanager,
    datadog,
    grafana,
    opsgenie,
    pagerduty,
    sentry,
)
from controllers.notification.services.service import Send
from controllers.notification.services.streams import eventhub, generic, nats, otel, pubsub

SERVICES: Final[Mapping[str, Send]] = MappingProxyType(
    {
        "generic": generic.send,  # the event as it is
        "generic-hmac": generic.send_signed,  # and signed
        "slack": slack.send,  # rooms where people talk
        "discord": discord.send,
        "rocket": rocket.send,
        "msteams": cards.send,
        "googlechat": googlechat.send,
        "webex": webex.send,
        "telegram": telegram.send,
        "lark": lark.send,
        "matrix": matrix.send,
        "zulip": zulip.send,
        "opsgenie": opsgenie.send,  # paging and monitoring
        "pagerduty": pagerduty.send,
        "sentry": sentry.send,
        "datadog": datadog.send,
        "grafana": grafana.send,
        "alertmanager": alertmanager.send,
        "nats": nats.send,  # streams of events
        "otel": otel.send,
        "azureeventhub": eventhub.send,
        "googlepubsub": pubsub.send,
        "github": github.send,  # the commit that was applied
        "gitlab": gitlab.send,
        "gitea": gitea.send,
        "bitbucket": bitbucket.send,
        "bitbucketserver": bitbucketserver.send,
        "azuredevops": azuredevops.send,
        "githubdispatch": dispatch.send,  # workflows of the repository
        "githubpullrequestcomment": comments.github,  # the change that is proposed
        "gitlabmergerequestcomment": comments.gitlab,
        "giteapullrequestcomment": comments.gitea,
    }
)
