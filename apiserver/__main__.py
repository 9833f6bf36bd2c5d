"""``python -m apiserver [flags]`` serves; the other words are for its keepers.

- ``generate`` writes ``deploy/base/apiserver``, ``check`` tells what differs;
- ``unregister [flags]`` deletes the APIService, until another replica takes over or the one that
  leads starts again.
"""

import asyncio
import sys
from collections.abc import Sequence

from apiserver import component, manifests, registration
from toolkit.kube import options
from toolkit.kube.manager import Manager


async def run(settings: options.Options) -> None:
    """Serve until a signal."""
    async with Manager.open(settings) as manager:
        component.start(manager, settings)
        await manager.run()


async def unregister(settings: options.Options) -> None:
    """Delete the APIService."""
    async with Manager.open(settings) as manager:
        await registration.unregister(manager.client)


def generate() -> int:
    """Write what is generated."""
    for name, text in manifests.render().items():
        (manifests.DIRECTORY / name).write_text(text)
    return 0


def check() -> int:
    """Tell which generated files are stale."""
    stale = 0
    for name, text in manifests.render().items():
        path = manifests.DIRECTORY / name
        if not path.exists() or path.read_text() != text:
            print(f"{path} is not what `make generate` writes", file=sys.stderr)  # noqa: T201 - a command prints
            stale = 1
    return stale


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the first word says; without one, serve."""
    words = list(sys.argv[1:] if argv is None else argv)
    match words[:1]:
        case ["generate"]:
            return generate()
        case ["check"]:
            return check()
        case ["unregister"]:
            asyncio.run(unregister(options.parse(words[1:], components=("apiserver",))))
        case _:
            asyncio.run(run(options.parse(words, components=("apiserver",))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
