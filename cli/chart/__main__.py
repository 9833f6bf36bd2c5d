"""Write the Helm chart and the page of its values: ``python -m cli.chart generate|check``."""

import asyncio
import sys

from cli.chart import builds, render
from crds import written
from toolkit.native import build


def main() -> int:
    """Build all variants, and write or compare the generated files."""
    build.build()
    files = render.outputs(asyncio.run(builds.build()))
    return written.main(sys.argv[1:], files, whole=render.WHOLE)


if __name__ == "__main__":
    sys.exit(main())
