"""A process that has a build made, and tells how it ended and what its worker came to hold.

``python -m tests.unit.toolkit.render.explodingbuild ROOT PATCHES`` builds a directory with patches,
in JSON. The kernel accounts for a worker to the process that waits for it, however it ends; here
that process has no other children than the worker of the build without patches that follows.
"""

import asyncio
import json
import resource
import sys
from dataclasses import replace
from pathlib import Path

from toolkit.native import calls
from toolkit.render import kustomize


async def main(root: Path, patches: str) -> None:
    """Build with the patches, then without."""
    pool = calls.start(size=1, reads=(root,))
    spec = {"patches": json.loads(patches)}
    build = kustomize.Build(mounts={"": root}, path=".", transformations=spec)
    error, following = "", 0
    try:
        await kustomize.build(pool, build, timeout=60, flow="team")
    except kustomize.BuildError as caught:
        error = str(caught)
        plain = replace(build, transformations={})
        following = len((await kustomize.build(pool, plain, timeout=60, flow="team")).objects)
    finally:
        await pool.close()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    sys.stdout.write(json.dumps({"error": error, "peak": peak, "following": following}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
