"""``inventories/diff`` and ``inventories/plan``: requested from the controller of the applier.

Only the controller has the artifacts, the keys, and the identities for a dry-run (ADR 0017). Each
controller has one address, given by a flag, and gets a token of our account that is valid for
nothing else. It does not get the name of the user: RBAC has authorized the request here.

The answer is decoded into our own schema, within limits and in a thread, before it is sent on.
"""

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import aiohttp
import msgspec
from aiohttp import web

from apiserver import encoding, fairness, status
from apiserver.call import Call
from apiserver.inventories.finding import RESOURCE, Known, Ready, answer, find
from apiserver.inventories.inventory import Inventory
from apiserver.inventories.model import InventoryPlan
from apiserver.owntoken import Token
from toolkit.errors import PenstockError
from toolkit.turns import Turns

AUDIENCE: Final = "penstock-plan"
"""The audience of the token; the controller accepts no other."""

_SECONDS: Final = 55.0
"""Less than kube-apiserver waits for us."""
_MAX_ANSWER: Final = 4 << 20
"""Limit in bytes; decoded, it is several times as much, and eight plans may run at once."""
_AT_ONCE: Final = 8
_WAITING: Final = 64
_MAX_REVISION: Final = 2048


class _Problem(msgspec.Struct):
    reason: str = ""
    message: str = ""


class Plans:
    """Forwards questions, some at a time, fair to users.

    ``addresses`` are those of the controllers, by name (``Applier.planner``).
    """

    def __init__(
        self, inventories: Known, view: Ready, *, addresses: Mapping[str, str], token: Token
    ) -> None:
        self._inventories = inventories
        self._view = view
        self._addresses = addresses
        self._token = token
        self._turns = Turns(places=_AT_ONCE, waiting=_WAITING)
        self._session: aiohttp.ClientSession | None = None

    async def run(self) -> None:
        """Keep connections until cancelled."""
        connector = aiohttp.TCPConnector(limit=_AT_ONCE, keepalive_timeout=30)
        async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
            self._session = session
            try:
                await asyncio.Event().wait()
            finally:
                self._session = None

    async def diff(self, call: Call) -> web.StreamResponse:
        """Answer with the changes that a reconciliation would make now."""
        return await self._answer(call, "")

    async def plan(self, call: Call) -> web.StreamResponse:
        """Answer with the changes that a reconciliation of ``?revision=`` would make now."""
        revision = call.query.get("revision", "")
        if not revision:
            raise status.bad_request(
                "say which revision: ?revision=<revision or digest>; the current one is what diff"
                " is about"
            )
        if len(revision) > _MAX_REVISION or not revision.isprintable():
            raise status.bad_request("revision: this is not a revision")
        return await self._answer(call, revision)

    async def _answer(self, call: Call, revision: str) -> web.StreamResponse:
        inventory = find(call, self._inventories, self._view)
        left = call.deadline - asyncio.get_running_loop().time()
        try:
            async with (
                asyncio.timeout(min(left, _SECONDS)),
                fairness.turn(self._turns, call.user),
            ):
                found = await self._ask(inventory, revision)
        except TimeoutError as exc:
            raise status.unavailable("the plan took too long: retry") from exc
        parts = {
            "revision": found.revision,
            "unchanged": found.unchanged,
            "changes": found.changes,
            **({"hooks": found.hooks} if found.hooks else {}),
        }
        return await encoding.respond(call, answer("InventoryPlan", inventory, parts))

    async def _ask(self, inventory: Inventory, revision: str) -> InventoryPlan:
        if self._session is None:
            raise status.not_yet("this process is starting, or ending")
        key, planner = inventory.applied.key, inventory.applier.planner
        path = f"/plan/{quote(key.namespace, safe='')}/{quote(key.name, safe='')}"
        query = {"revision": revision} if revision else {}
        try:
            headers = {"Authorization": f"Bearer {await self._token()}"}
            async with self._session.get(
                f"http://{self._addresses[planner]}{path}",
                params=query,
                headers=headers,
                allow_redirects=False,
            ) as response:
                body = await _bounded(response, inventory)
        except PenstockError as exc:
            raise status.unavailable(f"no token to ask for a plan with: {exc}") from exc
        except aiohttp.ClientError as exc:
            # the client's text names addresses and nothing that helps
            raise status.unavailable(
                f"{planner}, which makes the plans, cannot be reached"
            ) from exc
        if response.status != 200:
            raise _refusal(inventory, response.status, body)
        try:
            return await asyncio.to_thread(msgspec.json.decode, body, type=InventoryPlan)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise status.unavailable(f"{planner} sent something that is not a plan") from exc


async def _bounded(response: aiohttp.ClientResponse, inventory: Inventory) -> bytes:
    parts, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > _MAX_ANSWER:
            raise status.StatusError(
                413,
                "RequestEntityTooLarge",
                f"the plan of the {inventory.applier.kind.kind} is longer than"
                f" {_MAX_ANSWER >> 20} MiB",
            )
        parts.append(chunk)
    return b"".join(parts)


def _refusal(inventory: Inventory, code: int, body: bytes) -> status.StatusError:
    """Pass on why there is no plan, where that concerns the caller."""
    try:
        told = msgspec.json.decode(body, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        told = _Problem()
    if code in _PASSED:
        details = status.Details(name=inventory.key.name, group=status.GROUP, kind=RESOURCE)
        return status.StatusError(code, _PASSED[code], told.message, details)
    if code == 429:
        return status.StatusError(
            429, "TooManyRequests", told.message, status.Details(retry_after=5)
        )
    said = f": {told.message}" if told.message else ""
    planner = inventory.applier.planner
    return status.unavailable(f"{planner} made no plan (HTTP status {code}){said}")


_PASSED: Final = {404: "NotFound", 409: "Conflict", 422: "Invalid"}
