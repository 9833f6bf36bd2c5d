"""What is built for which tests, and when they begin."""

import pytest

from tests.tools import preparing, programs


def test_nothing_is_built_for_tests_that_need_nothing() -> None:
    assert preparing.needed(["tmp_path", "http"]) == ()


@pytest.mark.parametrize(
    ("fixture", "part"),
    [
        ("cosign_program", "cosign"),
        ("notation_sign_program", "notation-sign"),
        ("object_server", "fake-gcs-server"),
        ("azure", "azurite"),
        ("control_plane", "control plane (usual)"),
        ("oldest_programs", "control plane (oldest)"),
    ],
)
def test_a_test_waits_for_what_its_fixtures_need(fixture: str, part: str) -> None:
    assert part in [each.name for each in preparing.needed([fixture])]


def test_every_program_has_a_part() -> None:
    assert {*programs.PROGRAMS} <= {part.name for part in preparing.PARTS}


def test_the_first_line_says_what_is_built_and_for_how_long() -> None:
    line = preparing.announcement(("cosign", "flux"), processors=2)

    assert line.startswith("► building cosign, flux: about ")
    assert "on 2 idle processors" in line
