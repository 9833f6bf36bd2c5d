"""Run components: ``python -m controllers --components=source,kustomize,helm …``."""

import asyncio
import sys
from collections.abc import Sequence

from controllers import components
from toolkit.kube import options
from toolkit.kube.manager import Manager
from toolkit.native.sandbox import protection


async def run(settings: options.Options) -> None:
    """Wire the chosen components into one manager and run until a signal ends it."""
    async with Manager.open(settings) as manager:
        protection.require(protection.missing(), required=settings.require_sandbox)
        for name in components.NAMES:
            if name in settings.components:
                await components.load(name).start(manager, settings)
        await manager.run()


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and run."""
    words = sys.argv[1:] if argv is None else argv
    settings = options.parse(words, components=components.NAMES)
    asyncio.run(run(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
