"""What is being done, on standard error: the result alone goes to standard output."""

import sys


def say(text: str) -> None:
    """Write one step."""
    print(f"release: {text}", file=sys.stderr, flush=True)
