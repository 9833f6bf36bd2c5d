"""What a reader is fed: documents like its samples, texts in its language, and damage to both."""

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.fuzz import binaries, trees
from tests.fuzz.damage import damaged

Take = Callable[[bytes], None]
Exploration = Callable[[Take], None]


def of(
    samples: tuple[bytes, ...], shape: Callable[[], SearchStrategy[bytes]] | None
) -> SearchStrategy[bytes]:
    """Return inputs for a reader that takes ``samples``, and speaks the language ``shape``."""
    structured = trees.texts(samples)
    if shape:
        structured += [shape()] * (1 + len(structured))
    if any(sample.startswith((b"-----BEGIN", b"\x30")) for sample in samples):
        structured.append(binaries.DER)
    whole = st.one_of(st.sampled_from(samples), *structured)
    return st.one_of(*structured, *[damaged(whole)] * (1 + len(structured) // 2))
