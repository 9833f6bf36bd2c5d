"""Encode answers: JSON or YAML, indented for people, compressed if they are large.

Large answers are compressed and indented in threads, because zlib and msgspec release the
interpreter lock. YAML is written in Python, which does not. So large answers are never YAML, and
one thread writes all of it. ``respond`` is for subresources and other single documents; lists are
assembled from cached bytes (``apiserver.listing``).
"""

import asyncio
import functools
import re
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgspec
import yaml
from aiohttp import web

from apiserver import negotiation
from apiserver.call import Call
from apiserver.negotiation import YAML, Accepted
from toolkit.objects import Json

_COMPRESSED: Final = 128 << 10
"""Bytes, and level 1: as ``responsewriters/writers.go`` has it (k/k#112296)."""
_AT_ONCE: Final = 256 << 10
"""Bytes that are indented on the loop; it takes less than a millisecond."""
_BLOCK: Final = 64 << 10
"""Bytes of JSON that are written as YAML in block style; it is the slowest thing here."""


async def respond(call: Call, document: Json, *, code: int = 200) -> web.Response:
    """Answer with one document, in JSON or YAML as the client likes.

    Raises:
        StatusError: 406.
    """
    accepted = negotiation.negotiate(call)
    return await send(call, accepted, msgspec.json.encode(document), code=code)


async def respond_large(call: Call, make: Callable[[], Json]) -> web.Response:
    """Answer with a document that may have many parts; it is made and encoded in a thread.

    Raises:
        StatusError: 406.
    """
    accepted = negotiation.negotiate(call)
    body = await asyncio.to_thread(lambda: msgspec.json.encode(make()))
    return await send(call, accepted, body)


async def send(call: Call, accepted: Accepted, body: bytes, *, code: int = 200) -> web.Response:
    """Answer with encoded JSON."""
    body = await _formatted(accepted, body)
    headers = {"Content-Type": accepted.media_type}
    if len(body) > _COMPRESSED and _takes_gzip(call):
        body = await asyncio.to_thread(_compress, body)
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return web.Response(status=code, body=body, headers=headers)


async def _formatted(accepted: Accepted, body: bytes) -> bytes:
    if accepted.media_type == YAML and len(body) <= _BLOCK:
        return await asyncio.get_running_loop().run_in_executor(_writer(), _as_yaml, body)
    # JSON is valid YAML: a large list requested as YAML is answered so.
    if not accepted.pretty:
        return body + b"\n"
    if len(body) <= _AT_ONCE:
        return _indented(body)
    return await asyncio.to_thread(_indented, body)


def _indented(body: bytes) -> bytes:
    return msgspec.json.format(body, indent=2) + b"\n"


def _compress(body: bytes) -> bytes:
    made = zlib.compressobj(level=1, wbits=zlib.MAX_WBITS | 16)
    return made.compress(body) + made.flush()


@functools.cache
def _writer() -> ThreadPoolExecutor:
    """Return the only thread that writes YAML; further ones would compete with the event loop."""
    return ThreadPoolExecutor(1, thread_name_prefix="yaml")


def _as_yaml(body: bytes) -> bytes:
    text: bytes = yaml.dump(
        msgspec.json.decode(body),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        encoding="utf-8",
        width=1 << 16,
    )
    return text


def _takes_gzip(call: Call) -> bool:
    """Tell whether the client takes gzip; as upstream, without weights."""
    offered = call.web.headers.get("Accept-Encoding", "")
    return any(token.strip() == "gzip" for token in offered.split(","))


class _Dumper(yaml.CSafeDumper):
    """Writes no aliases, and quotes every text that some YAML could parse as another type."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the library's interface
        """Write each value out."""
        return True


_NUMERIC: Final = re.compile(r"[-+.]?[0-9]")
"""``12345e6`` is a text here and a number in Go's YAML: a digest may look like it."""


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if _NUMERIC.match(text) else None
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Dumper.add_representer(str, _text)
