"""The engine's C ABI, by ctypes.

Only worker processes load it: kustomize keeps state in process globals, and hostile input can make
the Go runtime abort the process. The library must not be used in a child of ``fork``.
"""

import ctypes
from enum import IntEnum
from itertools import count
from pathlib import Path

from toolkit.errors import StalledError


class Status(IntEnum):
    """The result of a call (``engine/internal/call``)."""

    OK = 0
    FAILED = 1
    CANCELLED = 2
    PANICKED = 3
    BAD_CALL = 4


class Engine:
    """Calls operations of the library at ``path``; a call releases the GIL."""

    def __init__(self, path: Path) -> None:
        try:
            library = ctypes.CDLL(str(path))
        except OSError as exc:
            raise StalledError(
                f"the engine cannot be loaded: {exc}", reason="EngineMissing"
            ) from exc
        self._call = library.eng_call
        self._call.restype = ctypes.c_int32
        self._call.argtypes = (
            *(ctypes.c_uint64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64),
            *(ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t)),
        )
        self._cancel = library.eng_cancel
        self._cancel.restype = None
        self._cancel.argtypes = (ctypes.c_uint64,)
        self._free = library.eng_free
        self._free.restype = None
        self._free.argtypes = (ctypes.c_void_p,)
        self._connect = library.eng_connect
        self._connect.restype = None
        self._connect.argtypes = (ctypes.c_int, ctypes.c_int)
        self._ids = count(1)

    def call(self, op: str, request: bytes, *, milliseconds: int = 0) -> tuple[Status, bytes]:
        """Run one operation; 0 is not a deadline. The answer is JSON, a failure too."""
        answer, size = ctypes.c_void_p(), ctypes.c_size_t()
        call_id = next(self._ids)
        try:
            status = self._call(
                *(call_id, op.encode(), request, len(request), milliseconds),
                *(ctypes.byref(answer), ctypes.byref(size)),
            )
            return Status(status), ctypes.string_at(answer, size.value)
        finally:
            self._free(answer)

    def connect(self, requests: int, answers: int) -> None:
        """Tell operations that ask their parent which pipes lead to it."""
        self._connect(requests, answers)

    def cancel(self, call_id: int) -> None:
        """End the context of a running call; from another thread."""
        self._cancel(call_id)
