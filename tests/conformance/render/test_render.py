"""Golden cases of what Flux renders: each names the file of Flux that it follows.

A case is a directory: ``case.yaml`` has the fields of a Kustomization, ``source`` the artifact,
``expected.yaml`` the objects in their order.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from toolkit.errors import PenstockError
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json
from toolkit.render import kustomize, substitute

_CASES = sorted(path.parent for path in Path(__file__).parent.glob("cases/*/case.yaml"))


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
async def test_a_case_renders_as_expected(pool: WorkerPool, case: Path) -> None:
    given = _load(case / "case.yaml")

    try:
        objects = await _render(pool, given, case / "source")
    except PenstockError as error:
        assert given.get("error", "no error") in str(error)  # noqa: PT017  # a case may expect one
        return

    assert "error" not in given, f"rendered {objects}"
    assert list(objects) == _load(case / "expected.yaml")


async def _render(pool: WorkerPool, given: dict[str, Any], source: Path) -> tuple[Json, ...]:
    rendered = await kustomize.build(
        pool,
        kustomize.Build(
            mounts={"": source}, path=given["path"], transformations=given.get("spec", {})
        ),
        timeout=30,
        flow="team",
    )
    variables = given.get("variables", {})
    return await substitute.substitute(
        pool, rendered.objects, variables, strict=True, always=False, timeout=30, flow="team"
    )


def _load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())
