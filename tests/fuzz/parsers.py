"""Every reader of untrusted input: what parses or evaluates what others wrote.

``ROWS`` is the table of docs/security.md ("Readers of untrusted input"). ``tests/docs`` compares
both with the code, so a module that begins to parse something needs a row here.
"""

from typing import Final

from tests.fuzz import (
    documents,
    evidence,
    expressions,
    fetching,
    names,
    receiving,
    workers,
)
from tests.fuzz.reader import Row

__all__ = ["ROWS", "Row"]

ROWS: Final[tuple[Row, ...]] = (
    *documents.ROWS,  # YAML, JSON, SOPS, values, reviews, records
    *evidence.ROWS,  # keys, certificates, signatures
    *expressions.ROWS,  # CEL, patterns, globs
    *names.ROWS,  # URLs, addresses, times, names
    *fetching.ROWS,  # registries, buckets, clouds, services, archives
    *receiving.ROWS,  # requests, events, objects, answers of clusters and workers
    *workers.ROWS,  # the Go engine, indexes, packs
)
