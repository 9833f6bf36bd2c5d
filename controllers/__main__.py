"""Run components: ``python -m controllers --components=source,kustomize …``."""

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
        for component in components.COMPONENTS:
            if component.name in settings.components:
                await component.start(manager, settings)
        await manager.run()


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and run."""
    names = tuple(component.name for component in components.COMPONENTS)
    settings = options.parse(sys.argv[1:] if argv is None else argv, components=names)
    asyncio.run(run(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
