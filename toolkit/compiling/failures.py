"""Why a build failed, in one sentence with what to do, for the causes that users can remove."""

import re
from typing import Final

_SHOWN_LINES: Final = 15

_CAUSES: Final = (
    # what go or a compiler printed, what it means, what to do
    (
        r"no space left on device",
        "the disk is full",
        "free 6 GB, or set GOCACHE and XDG_CACHE_HOME to directories on another disk",
    ),
    (
        r"go: go\.mod requires go >= (\S+)|requires go >= |invalid go version",
        "Go is too old",
        "install Go 1.26 or newer from https://go.dev/dl",
    ),
    (
        r"checksum mismatch|SECURITY ERROR",
        "the module proxy served other bytes than go.sum names",
        "set GOPROXY to one that you trust, and run `go clean -modcache`",
    ),
    (
        r"dial tcp|proxyconnect|TLS handshake|i/o timeout|: [45]\d\d [A-Z]\w+",
        "the Go module proxy cannot be reached",
        "check the network and HTTPS_PROXY, or set GOPROXY to a mirror",
    ),
    (
        r"C compiler .* not found|exec: \"(?:gcc|cc|clang)\"|stdlib\.h: No such file",
        "there is no C compiler",
        "install gcc and the headers of the C library (Debian: apt-get install gcc libc6-dev)",
    ),
    (
        r"signal: killed|cannot allocate memory|out of memory",
        "memory ran out",
        "free 2 GiB for each processor, or set GOMAXPROCS=1",
    ),
)


def explain(output: str) -> str:
    """Return the cause and its remedy; the last lines of the output if the cause is not known."""
    for pattern, cause, remedy in _CAUSES:
        if re.search(pattern, output):
            return f"{cause}: {remedy}; the same command continues from here"
    return "\n" + "\n".join(output.splitlines()[-_SHOWN_LINES:])
