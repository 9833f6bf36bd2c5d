"""``python -m apiserver [flags]`` serves; the other words are for its keepers.

- ``generate`` writes ``deploy/base/apiserver``, ``check`` tells what differs;
- ``unregister [flags]`` deletes the APIService, until another replica takes over or the one that
  leads starts again.
"""

import asyncio
import sys
from collections.abc import Sequence

from apiserver import component, manifests, registration
from crds import written
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the subcommand in the first argument; without one, serve."""
    words = list(sys.argv[1:] if argv is None else argv)
    match words[:1]:
        case ["generate"] | ["check"]:
            files = manifests.render()
            folder = manifests.DIRECTORY
            return written.main(words, {folder / name: text for name, text in files.items()})
        case ["unregister"]:
            asyncio.run(
                unregister(options.parse(words[1:], components=("apiserver",), program="apiserver"))
            )
        case _:
            asyncio.run(run(options.parse(words, components=("apiserver",), program="apiserver")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
