"""A build that asks for more memory than a worker has is stopped and told; the next one works.

How growth in small steps ends, which the kernel bounds, is in
``tests/unit/toolkit/render/test_hostile.py``.
"""

import pytest
import yaml

from tests.loopback.kustomize.conftest import Builds
from toolkit.errors import TransientError
from toolkit.native import calls

pytestmark = pytest.mark.asyncio(loop_scope="module")


def config_map(**data: str) -> str:
    metadata = {"name": "a"}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, width=1 << 30
    )


async def test_one_large_allocation_is_stopped_and_said_so(builds: Builds) -> None:
    # A gibibyte at once, for a default that nobody uses. The engine's guard ends the process, or
    # the runtime does that finds nothing left for itself: it is one message.
    files = {"a.yaml": config_map(v=f"${{set:-${{x//a/{'b' * 1024}}}}}")}
    variables = {"set": "1", "x": "a" * (1 << 20)}

    with pytest.raises(TransientError) as stopped:
        await builds.render(files, postBuild={"substitute": {"x": "a"}}, variables=variables)
    following = await builds.render({"a.yaml": config_map(v="1")})

    allowed = f"substitute needed more memory than allowed ({calls.MEMORY_LIMIT >> 20} MiB)"
    assert str(stopped.value) == f"variable substitution failed: {allowed}"
    assert stopped.value.reason == "BuildFailed"
    assert [obj["metadata"]["name"] for obj in following.objects] == ["a"]
