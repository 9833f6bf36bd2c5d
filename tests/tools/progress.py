"""A run that can be read while it goes on, and says at its end where the time went.

One line each quarter of a minute replaces a dot a test. Failures print as pytest prints them.
``pyproject.toml`` loads this plugin for every run. With several workers, only the process that
they report to prints, and also while no test ends.
"""

import threading
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
        self._told = self._began
        self._folder = "collecting"
        self._lock = threading.Lock()
        self._over = threading.Event()
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
        self._folder = _folder(nodeid)
        self._tests[self._folder] += 1
        self._tell(last=self._ended == self._expected)

    def pytest_terminal_summary(self) -> None:
        """Print the seconds per folder."""
        self._terminal.section("seconds per folder")
        for folder, seconds in sorted(self._seconds.items(), key=lambda row: -row[1]):
            self._terminal.write_line(f"{seconds:8.1f}  {self._tests[folder]:6}  {folder}")

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Print lines also while workers collect, or wait for what is built."""
        # A process that runs tests itself may fork, and has no thread beside them.
        if session.config.getoption("numprocesses", None):
            threading.Thread(target=self._tick, daemon=True).start()

    def pytest_sessionfinish(self) -> None:
        """Print no line after the last test."""
        self._over.set()

    def _tick(self) -> None:
        while not self._over.wait(1):
            self._tell()

    def _tell(self, *, last: bool = False) -> None:
        with self._lock:
            now = time.monotonic()
            if not last and now - self._told < _EVERY_SECONDS:
                return
            self._told = now
            if self._terminal.verbosity == 0:
                seconds = int(now - self._began)
                percent = 100 * self._ended // max(self._expected, 1)
                spent = f"{seconds // 60}:{seconds % 60:02}"
                self._terminal.ensure_newline()
                self._terminal.write_line(f"{percent:3} %  {spent:>6}  {self._folder}")


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
