"""The process: its certificates, its resources, its port, and its registration.

It listens as soon as it has a certificate, and answers discovery as soon as it has read the trusted
front proxies. It does not wait for caches of resources: reads report missing data themselves.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from aiohttp import web

from apiserver import health, registration, resources, version
from apiserver.auth.authentication import Authentication
from apiserver.auth.authorization import Authorization
from apiserver.auth.configuration import Configuration
from apiserver.auth.reviews import Reviews
from apiserver.auth.tokens import Tokens
from apiserver.discovery import GROUP_VERSION, Discovery
from apiserver.documents import Document, plain_json_or_refuse
from apiserver.health import Check, Health
from apiserver.listener import Listener
from apiserver.openapi import OpenAPI
from apiserver.registration import NAME, Registration, Target
from apiserver.resource import Resource
from apiserver.resources import Row
from apiserver.server import Answer, Route, Server
from apiserver.serving import Serving as Objects
from apiserver.status import GROUP
from apiserver.watches import Watches
from certs import component as certificates
from certs import injection
from certs.serving import Serving
from toolkit.kube.manager import Manager, answer_metrics
from toolkit.kube.options import Options


def start(
    manager: Manager, options: Options, *, rows: Sequence[Row] = resources.RESOURCES
) -> Listener:
    """Wire everything into the manager."""
    target = Target(namespace=manager.namespace, port=options.apiservice_port)
    watches = Watches(manager)
    served = [row.make(manager, options, watches) for row in rows]
    trust, serving = Configuration(manager.client), Serving(ask_clients=True)
    trust.subscribe(lambda now: serving.trust(now.bundle))
    manager.add_service(trust.run)
    keeper = certificates.start(
        manager,
        options,
        serving,
        name=NAME,
        hosts=target.hosts,
        kinds=(injection.API_SERVICE,),
    )
    listener = Listener(
        _server(manager, trust, served, stopping=lambda: manager.stopping),
        serving,
        address=options.secure_addr,
        certificate=keeper.wait_ready,
        delay=options.shutdown_delay_duration,
        grace=options.graceful_shutdown_timeout,
    )
    manager.add_informer(listener)
    manager.add_farewell(listener.finish)

    async def answering() -> None:
        await listener.wait_synced()
        await trust.wait_ready()
        await registration.reachable(manager.client, target)

    registered = Registration(manager.client, target, bundle=lambda: keeper.bundle, ready=answering)
    manager.add_elected(registered.run, lease=NAME)
    return listener


def _server(
    manager: Manager,
    trust: Configuration,
    served: Sequence[Resource],
    *,
    stopping: Callable[[], bool],
) -> Server:
    return Server(
        trust=lambda: trust.current,
        # A separate client, so that unknown tokens do not delay known users.
        authentication=Authentication(Tokens(Reviews(manager.client))),
        authorization=Authorization(Reviews(manager.client)),
        routes={each.plural: Route(each, Objects(each)) for each in served},
        documents=documents(served),
        healthy=_health(trust, served, stopping=stopping),
    )


def _health(
    trust: Configuration, served: Sequence[Resource], *, stopping: Callable[[], bool]
) -> Health:
    def trusting() -> str:
        return "" if trust.current else "whom the API server trusts is not known yet"

    def missing() -> list[str]:
        return [each.plural for each in served if not each.view.ready]

    return Health(
        live=(Check(name="ping", problem=health.ping),),
        ready=(
            Check(name="shutdown", problem=lambda: "process is shutting down" * stopping()),
            Check(name="authentication", problem=trusting),
            health.fill_check(missing, now=asyncio.get_running_loop().time),
        ),
    )


def documents(served: Sequence[Resource]) -> Mapping[str, Answer]:
    """Return the answers for paths without a resource."""
    discovery, schemas = Discovery(served), OpenAPI(served)
    paths = {
        "/apis": discovery.root,
        f"/apis/{GROUP}": discovery.group,
        f"/apis/{GROUP_VERSION}": discovery.resources,
        "/openapi/v2": schemas.v2,
        "/openapi/v3": schemas.root,
        f"/openapi/v3/apis/{GROUP_VERSION}": schemas.v3,
        "/version": _fixed(Document.of(version.info())),
        "/metrics": answer_metrics,
    }
    index = Document.of({"paths": sorted([*paths, *health.PATHS])})
    return {**paths, "/": _fixed(index)}


def _fixed(document: Document) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        plain_json_or_refuse(request)
        return document.answer(request)

    return answer
