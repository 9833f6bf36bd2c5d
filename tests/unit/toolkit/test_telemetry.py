"""Log lines that the flux CLI reads."""

import json
import logging
import sys

import pytest

from toolkit import telemetry


def test_a_line_is_json_with_flux_s_keys(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry.configure_logging("info", "json")
    log = telemetry.ObjectLogger(logging.getLogger("x"), {"name": "a", "namespace": "b"})

    log.also(revision="r").info("stored %s", "it", extra={"size": 7})

    line = json.loads(capsys.readouterr().err)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "msg": "stored it",
        "name": "a",
        "namespace": "b",
        "revision": "r",
        "size": 7,
    }
    assert root.handlers


def test_extra_fields_of_a_plain_logger_are_kept(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry.configure_logging("info", "json")

    logging.getLogger("x").warning("careful", extra={"kind": "Secret"})

    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["kind"]) == ("info", "Secret")
    assert root.handlers


def test_an_exception_is_an_error_with_its_trace(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry.configure_logging("info", "json")

    try:
        int("broken")
    except ValueError:
        logging.getLogger("x").exception("failed")

    line = json.loads(capsys.readouterr().err)
    assert line["level"] == "error"
    assert "broken" in line["error"]
    assert "Traceback" in line["stacktrace"]
    assert root.handlers


@pytest.mark.parametrize(("level", "expected"), [("error", 1), ("info", 2), ("debug", 3)])
def test_the_level_is_a_threshold(
    level: str, expected: int, root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry.configure_logging(level, "json")
    log = logging.getLogger("x")

    log.debug("one")
    log.info("two")
    log.error("three")

    assert len(capsys.readouterr().err.splitlines()) == expected
    assert root.handlers


def test_the_console_encoding_is_for_people(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry.configure_logging("info", "console")

    logging.getLogger("x").info("stored", extra={"size": 7})

    parts = capsys.readouterr().err.strip().split("\t")
    assert parts[1:] == ["INFO", "stored", '{"size":7}']
    assert root.handlers


def test_values_that_are_not_json_are_printed(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry.configure_logging("info", "json")

    logging.getLogger("x").info("at", extra={"where": sys.stderr.__class__})

    assert "class" in json.loads(capsys.readouterr().err)["where"]
    assert root.handlers
