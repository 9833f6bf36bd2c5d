"""The table of limiters and the limiters of the product are the same."""

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.docs.limiters import LIMITERS, Limiter
from tests.docs.pages import ROOT

PACKAGES = ("apiserver", "certs", "controllers", "toolkit", "webhooks")
NAMES = frozenset(
    {
        *("Semaphore", "BoundedSemaphore", "Lock", "RLock", "Barrier"),
        *("Queue", "PriorityQueue", "LifoQueue", "SimpleQueue", "WorkQueue"),
        *("ThreadPoolExecutor", "ProcessPoolExecutor", "TCPConnector"),
        *("Turns", "Turnstile", "Slots", "Budget", "Connections", "Locks"),
    }
)


def called(tree: ast.AST) -> Iterator[str]:
    """Yield the names of everything that is called, or given as a factory."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        factories = [word.value for word in node.keywords if word.arg == "default_factory"]
        for target in (node.func, *factories):
            named = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(named, ast.Attribute):
                yield named.attr
            elif isinstance(named, ast.Name):
                yield named.id


def limiters() -> Counter[tuple[str, str]]:
    return Counter(
        (str(path.relative_to(ROOT)), name)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in called(ast.parse(path.read_text()))
        if name in NAMES
    )


def test_every_limiter_has_a_row_and_the_other_way_round() -> None:
    assert {(row.module, row.name): row.number for row in LIMITERS} == limiters()


def test_a_limiter_is_found_in_each_form() -> None:
    text = "a = asyncio.Queue[int](3)\nb = field(default_factory=asyncio.Lock)\nc = Turns()"

    assert NAMES.intersection(called(ast.parse(text))) == {"Queue", "Turns", "Lock"}


@pytest.mark.parametrize("row", LIMITERS, ids=lambda row: f"{row.module}-{row.name}")
def test_every_row_says_what_is_held_and_until_when(row: Limiter) -> None:
    assert row.holds
    assert row.ends


def test_what_waits_for_servers_of_users_is_not_shared_by_all() -> None:
    """Places for which strangers decide how long they are held."""
    strangers = ("registry", "issuer", "Provider", "upload", "download")
    for row in LIMITERS:
        if any(word in row.holds for word in strangers) and "own bucket" not in row.holds:
            assert row.shared != "process" or "uploader" in row.holds, row
