"""The versions that the page on support names are those that tests run on."""

import re

from cli.installing.inspection import OLDEST
from controlplane.binaries import OLDEST_PROGRAMS, PROGRAMS, Program
from tests.docs.pages import ROOT

_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_SECTION = re.compile(r"^## Kubernetes versions\n(.*?)^## ", re.MULTILINE | re.DOTALL)


def support() -> dict[str, str]:
    """Return what the page says of each version of Kubernetes."""
    page = (ROOT / "docs/support.md").read_text()
    section = _SECTION.search(page)
    assert section, "docs/support.md has no section on Kubernetes versions"
    return dict(_ROW.findall(section[1]))


def minor(program: Program) -> str:
    return ".".join(program.version.removeprefix("v").split(".")[:2])


def test_every_test_runs_on_the_version_of_the_embedded_control_plane() -> None:
    assert support()[minor(PROGRAMS[0])].startswith("Every test runs on it")


def test_the_oldest_version_is_tested_and_the_one_that_is_demanded() -> None:
    oldest = minor(OLDEST_PROGRAMS[0])

    assert support()[oldest].startswith("The oldest version")
    assert oldest == ".".join(map(str, OLDEST))
    assert f'kubeVersion: ">={oldest}.0-0"' in (ROOT / "deploy/chart/Chart.yaml").read_text()
