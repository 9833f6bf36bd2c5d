"""Causes that a user can remove, as go and the compilers print them."""

import pytest

from toolkit.compiling import failures


@pytest.mark.parametrize(
    ("output", "cause", "remedy"),
    [
        (
            "compile: writing output: write $WORK/b1/_pkg_.a: no space left on device",
            "the disk is full",
            "GOCACHE",
        ),
        (
            "go: go.mod requires go >= 1.26.0 (running go 1.22.2; GOTOOLCHAIN=local)",
            "Go is too old",
            "go.dev/dl",
        ),
        (
            'go: k8s.io/api@v0.37.1: Get "https://proxy.example/x.zip": dial tcp: no such host',
            "the Go module proxy cannot be reached",
            "GOPROXY",
        ),
        (
            "go: k8s.io/api@v0.37.1: reading https://proxy.example/x.mod: 503 Service Unavailable",
            "the Go module proxy cannot be reached",
            "GOPROXY",
        ),
        (
            "verifying k8s.io/api@v0.37.1: checksum mismatch\nSECURITY ERROR",
            "other bytes than go.sum names",
            "GOPROXY",
        ),
        (
            'cgo: C compiler "gcc" not found: exec: "gcc": executable file not found in $PATH',
            "there is no C compiler",
            "install gcc",
        ),
        (
            "k8s.io/api/core/v1: /usr/lib/go/compile: signal: killed",
            "memory ran out",
            "GOMAXPROCS=1",
        ),
    ],
)
def test_a_failure_is_one_sentence_with_its_remedy(output: str, cause: str, remedy: str) -> None:
    told = failures.explain(f"k8s.io/api\n{output}\n")

    assert cause in told
    assert remedy in told
    assert "\n" not in told


def test_of_another_failure_the_last_lines_are_shown() -> None:
    told = failures.explain("".join(f"package{number}\n" for number in range(40)) + "x.go:1: no\n")

    assert told.endswith("x.go:1: no")
    assert "package5\n" not in told
