"""A run that can be read while it goes on, and says at its end where the time went.

One line each quarter of a minute replaces a dot a test. Failures print as pytest prints them.
``pyproject.toml`` loads this plugin for every run. With several workers, only the process that
they report to prints.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, Literal

import pytest
from _pytest.terminal import TerminalReporter

_EVERY_SECONDS: Final = 15.0
_DEPTH: Final = 3
"""Path components that name a folder: ``tests/unit/toolkit``."""


class Progress:
    """Counts tests as they end, and adds their seconds up by folder."""

    def __init__(self, terminal: TerminalReporter) -> None:
        self._terminal = terminal
        self._began = time.monotonic()
        self._told = 0.0
        self._expected = 0
        self._ended = 0
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tests: defaultdict[str, int] = defaultdict(int)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note how many tests there are to run."""
        self._expected = len(session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Note how many tests there are to run: each worker finds all of them."""
        self._expected = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[Literal["passed"], str, str] | None:
        """Print no letter for a test that passed."""
        quiet = self._terminal.verbosity == 0 and report.when == "call" and report.passed
        return ("passed", "", "") if quiet and not hasattr(report, "wasxfail") else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a set-up, a call or a tear-down; name what failed at once."""
        self._seconds[_folder(report.nodeid)] += report.duration
        if report.failed and self._terminal.verbosity == 0:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED in {report.when}: {report.nodeid}", red=True)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Count a test, and say now and then how far the run is."""
        self._ended += 1
        folder, now = _folder(nodeid), time.monotonic()
        self._tests[folder] += 1
        if now - self._told >= _EVERY_SECONDS or self._ended == self._expected:
            self._told = now
            self._tell(folder, now - self._began)

    def pytest_terminal_summary(self) -> None:
        """Print the seconds per folder."""
        self._terminal.section("seconds per folder")
        for folder, seconds in sorted(self._seconds.items(), key=lambda row: -row[1]):
            self._terminal.write_line(f"{seconds:8.1f}  {self._tests[folder]:6}  {folder}")

    def _tell(self, folder: str, seconds: float) -> None:
        percent = 100 * self._ended // max(self._expected, 1)
        if self._terminal.verbosity == 0:
            spent = f"{int(seconds) // 60}:{int(seconds) % 60:02}"
            self._terminal.ensure_newline()
            self._terminal.write_line(f"{percent:3} %  {spent:>6}  {folder}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take the place of the dots."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if isinstance(terminal, TerminalReporter):
        terminal.showfspath = terminal.verbosity > 0
        config.pluginmanager.register(Progress(terminal), "penstock-progress")


def _folder(nodeid: str) -> str:
    """Return the folder of a test, at most ``_DEPTH`` names deep."""
    return "/".join(nodeid.partition("::")[0].split("/")[:-1][:_DEPTH]) or "."
