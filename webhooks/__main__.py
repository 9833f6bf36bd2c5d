"""``python -m webhooks [flags]`` serves; ``generate|check`` and ``disarm`` are for maintainers.

- ``generate`` writes ``deploy/base/webhooks`` and a component, ``check`` tells what differs;
- ``disarm [flags]`` deletes the configurations, and lets the API server convert old versions by
  changing ``apiVersion`` alone. The API server then calls no webhook until another replica takes
  the lease, or the current leader restarts.
"""

import asyncio
import sys
from collections.abc import Sequence

from crds import KINDS, written
from toolkit.kube import options
from toolkit.kube.manager import Manager
from toolkit.native.sandbox import protection
from webhooks import arming, component, configuration, definitions, plugins


async def run(settings: options.Options) -> None:
    """Serve until a signal."""
    async with Manager.open(settings) as manager:
        protection.require(protection.missing(), required=settings.require_sandbox)
        await component.start(manager, settings, rows=plugins.PLUGINS)
        await manager.run()


async def disarm(settings: options.Options) -> None:
    """Delete the webhook configurations, and register no conversion webhook any more."""
    async with Manager.open(settings) as manager:
        await arming.disarm(manager.client)
        await definitions.disarm(manager.client, KINDS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the subcommand in the first argument; without one, serve."""
    words = list(sys.argv[1:] if argv is None else argv)
    match words[:1]:
        case ["generate"] | ["check"]:
            files = configuration.render(plugins.PLUGINS)
            folder = configuration.DIRECTORY
            placed = {folder / name: text for name, text in files.items()}
            added = {configuration.ADDED: configuration.render_added(plugins.PLUGINS)}
            return written.main(words, placed | added)
        case ["disarm"]:
            asyncio.run(
                disarm(options.parse(words[1:], components=("webhooks",), program="webhooks"))
            )
        case _:
            asyncio.run(run(options.parse(words, components=("webhooks",), program="webhooks")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
