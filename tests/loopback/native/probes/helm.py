"""The worker as it is, attempts, and one to ask its parent for what is not its release's."""

import json
import os
from collections.abc import Callable, Mapping

from tests.loopback.native.probes import attempts
from toolkit.helm import worker
from toolkit.native import frames
from toolkit.native.questions import Ask

connect = worker.connect


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    return {**worker.operations(), **attempts.operations(), "ask": _ask}


def _ask(payload: bytes) -> bytes:
    """Send a request for the path as the storage of records, and wait for what comes."""
    requests, answers = worker.pipes()
    named = {"identity": "storage", "method": "GET", "target": payload.decode(), "headers": {}}
    head = json.dumps(named).encode()
    number = 1
    question = bytes([Ask.SEND]) + number.to_bytes(4, "little")
    question += len(head).to_bytes(4, "little") + head
    os.write(answers, frames.ANSWER.pack(frames.Status.ASKING, len(question)) + question)
    return os.read(requests, 100)
