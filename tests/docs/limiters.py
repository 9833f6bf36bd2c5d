"""Every limiter of the product: who can hold a place, for what, how long, and how it is shared.

A limiter is anything that makes one caller wait for another, or refuses one because of another.
``tests/docs/test_limiters.py`` finds them in the source and compares.
"""

from dataclasses import dataclass
from typing import Literal

Shared = Literal["namespace", "user", "client", "own", "process"]
"""How places are shared.

- ``namespace``, ``user``, ``client``: none of them holds everything (``toolkit.turns.fair``).
- ``own``: it is made for one request, object, key or host, so nobody else waits for it.
- ``process``: everyone waits, so a place must be held for local work or for a bounded time only.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limiter:
    """Calls of ``name`` in a module; ``number`` if there are several.

    ``holds`` is who holds a place for what, ``ends`` when the place is free again.
    """

    module: str
    name: str
    holds: str
    ends: str
    shared: Shared
    number: int = 1


def _row(  # noqa: PLR0917 - the columns of the table
    module: str, name: str, holds: str, ends: str, shared: Shared, number: int = 1
) -> Limiter:
    return Limiter(module=module, name=name, holds=holds, ends=ends, shared=shared, number=number)


LIMITERS = (
    # The gate.
    _row(
        "webhooks/component.py",
        "Turns",
        "a review, while a plugin works; not while it waits for a registry or key service",
        "at the deadline of the review, 15 s at most",
        "namespace",
    ),
    _row(
        "webhooks/server.py",
        "Budget",
        "the bytes of a body that has come; a decoded review counts for its namespace",
        "when it is answered; a slow body after half a second, if there is no room",
        "namespace",
        2,
    ),
    _row(
        "webhooks/server.py",
        "Connections",
        "a connection of an API server, once a request has come whole",
        "when the answer is read, within 30 s",
        "process",
    ),
    _row(
        "webhooks/conversion.py",
        "Semaphore",
        "a large conversion, in a thread",
        "when it is computed; a body has 64 MiB at most",
        "process",
    ),
    _row("webhooks/imagechecks.py", "Semaphore", "images of one review", "with the review", "own"),
    _row(
        "webhooks/imageregistries.py",
        "Semaphore",
        "a conversation of a namespace with a registry",
        "at the deadline of the review",
        "own",
    ),
    # Receivers and events.
    _row(
        "controllers/notification/bodies.py",
        "Budget",
        "the bytes of a body that has come, for the namespace of its Receiver",
        "when it is answered; a slow body after half a second, if there is no room",
        "namespace",
    ),
    _row(
        "controllers/notification/receiving/hooks.py",
        "Turns",
        "a hook that is checked (its issuer may be slow), and one that is acted upon",
        "after two requests of 10 s to an issuer; after 30 s",
        "namespace",
        2,
    ),
    _row(
        "controllers/notification/receiving/hooks.py",
        "Semaphore",
        "writes of one hook",
        "with the hook",
        "own",
    ),
    _row(
        "controllers/notification/receiving/oidc.py",
        "Lock",
        "requests that need the keys of one issuer",
        "after two requests of 10 s",
        "own",
    ),
    _row(
        "controllers/notification/sending/sender.py",
        "Turns",
        "a delivery to a Provider, and one whose Provider failed before",
        "at the timeout of the Provider",
        "namespace",
        2,
    ),
    _row(
        "controllers/notification/events/handover.py",
        "Queue",
        "names of ConfigMaps that another replica left; it has no limit",
        "when they are adopted",
        "process",
    ),
    _row(
        "controllers/notification/events/spool.py",
        "ThreadPoolExecutor",
        "a write of events to the local disk",
        "when it is written",
        "process",
    ),
    _row(
        "toolkit/events.py",
        "Queue",
        "an event of this process that is not sent yet; at the limit the newest is dropped",
        "when the notification controller has it, or at its timeout",
        "process",
    ),
    # Controllers.
    _row(
        "toolkit/kube/controller.py",
        "WorkQueue",
        "an object that is reconciled; a wait for health holds no worker",
        "at spec.timeout",
        "namespace",
    ),
    _row(
        "controllers/planning/server.py",
        "Turns",
        "a plan that is computed",
        "at the deadline of the request",
        "namespace",
    ),
    _row(
        "controllers/image/checkouts.py", "Lock", "one checkout", "with the reconciliation", "own"
    ),
    _row(
        "controllers/source/generating/outputs.py",
        "Semaphore",
        "outputs of one ArtifactGenerator",
        "with the reconciliation",
        "own",
    ),
    _row(
        "certs/injection.py", "WorkQueue", "an own definition or webhook", "in seconds", "process"
    ),
    # The aggregated API.
    _row(
        "apiserver/fairness.py",
        "Turns",
        "a request by its kind",
        "at the deadline of the request",
        "user",
    ),
    _row(
        "apiserver/artifacts/blobs.py",
        "Turns",
        "a download: to find it, to send it, to pass it on",
        "at the deadline; a client that reads slowly is dropped",
        "user",
        3,
    ),
    _row("apiserver/artifacts/files.py", "Turns", "a listing of files", "in seconds", "user"),
    _row("apiserver/inventories/tree.py", "Turns", "a tree", "at its deadline", "user"),
    _row(
        "apiserver/inventories/tree.py",
        "Semaphore",
        "a list for a tree, of the few trees that have a turn",
        "when the API server answers",
        "process",
    ),
    _row("apiserver/inventories/plans.py", "Turns", "a plan", "at its deadline", "user"),
    _row(
        "apiserver/inventories/plans.py",
        "TCPConnector",
        "a connection to a controller, as many as turns",
        "with the turn",
        "user",
    ),
    _row("apiserver/inventories/projection.py", "Lock", "a flush of changes", "at once", "process"),
    _row("apiserver/artifacts/surveying.py", "Lock", "a survey of the store", "then", "process"),
    _row(
        "apiserver/artifacts/surveying.py",
        "WorkQueue",
        "a source whose artifact is looked for",
        "when the store answers",
        "process",
    ),
    _row(
        "apiserver/auth/reviews.py",
        "Semaphore",
        "a question to the API server",
        "within the time limit of a review",
        "process",
    ),
    _row("apiserver/encoding.py", "ThreadPoolExecutor", "an answer as YAML", "then", "process"),
    _row(
        "apiserver/server.py",
        "Connections",
        "a connection, once a request has come whole",
        "when the answer is read",
        "process",
    ),
    # Artifacts.
    _row(
        "toolkit/artifact/server.py",
        "Turns",
        "a download",
        "when it is sent; a client that reads slowly is dropped",
        "client",
    ),
    _row(
        "toolkit/artifact/uploads.py",
        "Turnstile",
        "an upload: two for each namespace, sixteen in all; nobody waits",
        "at its deadline",
        "namespace",
    ),
    _row(
        "toolkit/artifact/access.py",
        "Semaphore",
        "a question to the API server about an uploader",
        "when the API server answers",
        "process",
    ),
    _row("toolkit/artifact/bucket.py", "Locks", "writes of one owner", "then", "own"),
    _row(
        "toolkit/artifact/bucket.py",
        "Semaphore",
        "a download from the installation's own bucket",
        "at the deadline of the request",
        "process",
    ),
    _row("toolkit/artifact/cache.py", "Lock", "the claim of the directory", "once", "process"),
    _row("toolkit/artifact/digest.py", "Locks", "the digest of one file", "then", "own"),
    _row("toolkit/artifact/locks.py", "Lock", "one key", "with the key", "own"),
    _row("toolkit/artifact/quota.py", "Locks", "an upload of a namespace", "then", "own"),
    _row("toolkit/artifact/room.py", "Lock", "a measurement of the disk", "then", "process", 2),
    _row("toolkit/artifact/storage.py", "Locks", "writes of one owner", "then", "own"),
    # Requests to API servers, and answers that are kept.
    _row(
        "toolkit/kube/transport.py",
        "Semaphore",
        "a request to one API server; a watch holds none",
        "at the deadline of the request",
        "process",
    ),
    _row("toolkit/kube/transport.py", "Lock", "a read of the token's file", "at once", "process"),
    _row("toolkit/kube/mapper.py", "Lock", "a discovery of one cluster", "then", "process"),
    _row(
        "toolkit/kube/manager.py",
        "ThreadPoolExecutor",
        "work that blocks (asyncio.to_thread): files, archives, decryption, tag filters, masking; "
        "no work of one namespace may hold all threads, because its reconciliations are bounded",
        "when it is done; tag filters after 20 s of processor time",
        "namespace",
    ),
    _row(
        "toolkit/kube/manager.py",
        "Connections",
        "a connection, once a request has come whole",
        "when the answer is read",
        "process",
    ),
    _row("toolkit/kept.py", "Lock", "callers that ask for one key", "with the answer", "own"),
    _row("toolkit/apply/bounded.py", "Semaphore", "calls of one apply", "with it", "own"),
    _row(
        "toolkit/expressions/evaluator.py",
        "Turns",
        "expressions of an object, a hook or a review, while a worker evaluates them",
        "after a second of processor time, or thirty seconds, when the worker is ended; namespaces "
        "that have ended workers lately count as one",
        "namespace",
    ),
    _row("toolkit/apply/clock.py", "Lock", "the clock of one API server", "then", "process"),
    _row(
        "toolkit/apply/watches.py",
        "Semaphore",
        "watches of one cluster that start",
        "when the list has come",
        "process",
    ),
    _row("toolkit/apply/owned/growing.py", "Budget", "objects of one tree", "with it", "own"),
    # Workers.
    _row(
        "toolkit/native/pool.py",
        "Slots",
        "an operation of a worker; one that waits takes a spare slot",
        "at its deadline, when the worker is killed",
        "namespace",
    ),
    _row(
        "toolkit/native/slots.py",
        "Turns",
        "an operation of a worker (the row above); who waits takes turns",
        "at its deadline",
        "namespace",
    ),
    # Servers of others.
    _row(
        "toolkit/remote/http/strangers.py",
        "ThreadPoolExecutor",
        "a lookup of a name or a handshake with a proxy, shared by domains; names that were found "
        "at once before have threads of their own",
        "at the timeout of the resolver, also if the caller has given up",
        "client",
    ),
    _row(
        "toolkit/remote/http/strangers.py", "Lock", "the list of what waits", "at once", "process"
    ),
    _row("toolkit/remote/cloud/cache.py", "Lock", "one credential", "at its deadline", "own"),
    _row("toolkit/remote/git/github.py", "Lock", "one App's token", "at its deadline", "own"),
    _row("toolkit/remote/oci/tokens.py", "Lock", "one registry token", "at its deadline", "own"),
    _row(
        "toolkit/remote/objectstore/credentials.py", "Lock", "one login", "at its deadline", "own"
    ),
    _row("toolkit/remote/objectstore/objectstore.py", "Semaphore", "deletions", "with them", "own"),
    _row("toolkit/remote/git/fetch.py", "Budget", "bytes of one fetch", "with it", "own"),
    _row("toolkit/remote/git/push.py", "Budget", "bytes of one push", "with it", "own"),
    _row("toolkit/remote/git/ondisk/worker.py", "Budget", "bytes of one fetch", "then", "own", 2),
    _row("toolkit/decrypt/kms/opened.py", "Lock", "one data key", "at its deadline", "own"),
    _row("toolkit/decrypt/kms/services.py", "Semaphore", "documents of one build", "then", "own"),
    _row("toolkit/verify/cosign/publicroot.py", "Lock", "the public root", "then", "process"),
    _row("toolkit/verify/notation/revocation.py", "Semaphore", "one proof", "with it", "own"),
    _row("toolkit/verify/verifications.py", "Lock", "one proof of one namespace", "then", "own"),
)
