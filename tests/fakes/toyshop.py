"""A resource of the aggregated API whose objects a test puts into it: ``toys``, short ``ty``."""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from apiserver import encoding
from apiserver.call import Call
from apiserver.resource import Column, Resource, Subresource
from apiserver.resources import Row
from apiserver.status import GROUP
from apiserver.view import View
from toolkit.objects import ObjectKey

API_VERSION = f"{GROUP}/v1alpha1"


class ToySpec(msgspec.Struct):
    """What a toy is made of."""

    colour: str = ""
    """Colour, as painted."""


class Toy(msgspec.Struct):
    """A thing to play with."""

    spec: ToySpec = msgspec.field(default_factory=ToySpec)
    """What it is made of."""


class ToyReport(msgspec.Struct):
    """What was found out about a toy."""

    user: str = ""
    """Who asked."""


@dataclass
class ToyShop:
    """A resource with objects that the test puts into it."""

    view: View = field(
        default_factory=lambda: View(
            kind="Toy", api_version=API_VERSION, tag=secrets.randbelow(1000)
        )
    )
    revision: int = 1000
    handlers: dict[str, Callable[[Call], Awaitable[web.StreamResponse]]] = field(
        default_factory=dict
    )
    """By namespace: what answers for the reports in it."""
    calls: list[Call] = field(default_factory=list)

    @property
    def row(self) -> Row:
        return Row(make=lambda *_: self.resource(), permissions=())

    def put(self, namespace: str, name: str, colour: str = "red") -> None:
        self.revision += 1
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"colour": colour},
        }
        toy = {"apiVersion": API_VERSION, "kind": "Toy", "metadata": metadata}
        self.view.put(toy | {"spec": {"colour": colour}}, revision=self.revision)

    def remove(self, namespace: str, name: str) -> None:
        self.revision += 1
        self.view.remove(ObjectKey(namespace, name), revision=self.revision)

    def asked(self, namespace: str) -> list[Call]:
        """Return the calls for reports in a namespace."""
        return [call for call in self.calls if call.namespace == namespace]

    def restarted(self) -> "ToyShop":
        """Return what a new process knows: what there is, and nothing of what was."""
        made = ToyShop(revision=self.revision)
        for item in self.view.snapshot().items:
            made.put(item.key.namespace, item.key.name, colour=item.obj["spec"]["colour"])
        return made

    async def report(self, call: Call) -> web.StreamResponse:
        self.calls.append(call)
        if call.namespace in self.handlers:
            return await self.handlers[call.namespace](call)
        found = {"kind": "ToyReport", "apiVersion": API_VERSION, "user": call.user.name}
        return await encoding.respond(call, found)

    def resource(self) -> Resource:
        return Resource(
            kind="Toy",
            plural="toys",
            singular="toy",
            short_names=("ty",),
            model=Toy,
            columns=(
                Column(
                    name="Name",
                    cell=lambda toy: str(toy["metadata"]["name"]),
                    format="name",
                    description="Name.",
                ),
                Column(
                    name="Colour",
                    cell=lambda toy: str(toy["spec"]["colour"]),
                    description="Colour.",
                ),
            ),
            fields={"spec.colour": lambda toy: str(toy["spec"]["colour"])},
            view=self.view,
            subresources=(
                Subresource(
                    name="report",
                    kind="ToyReport",
                    verbs=("get", "create"),
                    handle=self.report,
                    model=ToyReport,
                    description="What is known of a toy.",
                ),
            ),
        )
