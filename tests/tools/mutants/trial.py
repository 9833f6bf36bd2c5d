"""Run tests against mutants, each in a fork of one process that has collected all tests.

First the tests of a level run unchanged, and tell which refusals each of them reaches. Then each
refusal is removed and only the tests that reach it run, until the first fails. A refusal that no
test of the level reaches goes unnoticed there without a run.
"""

import contextlib
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.tools.mutants.switch import Switch

SECONDS: Final = 120.0
"""What the tests of one mutant may take; a mutant that makes them hang is noticed."""
_PROBE_SECONDS: Final = 1500.0


@dataclass(slots=True)
class Seen:
    """What the unchanged tests did: seconds and refusals reached by test, and which failed."""

    reached: dict[str, set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def tests_of(self, key: str) -> list[str]:
        """Return the tests that reach a refusal, the quickest first."""
        found = (test for test, keys in self.reached.items() if key in keys)
        return sorted(found, key=lambda test: self.seconds[test])


class Forks:
    """Runs tests of a session in forked processes."""

    def __init__(self, session: pytest.Session, switch: Switch, *, workers: int) -> None:
        self._items = session.items
        self._config = session.config
        self._switch = switch
        self._workers = workers
        self._kept = Path(tempfile.mkdtemp(prefix="mutants-"))
        weakref.finalize(self, shutil.rmtree, self._kept, ignore_errors=True)
        self._seen = Seen()
        self._asked: set[str] = set()
        # What no fork collects, no fork copies.
        gc.freeze()

    def probe(self, places: Iterable[str]) -> Seen:
        """Run the tests in these files and folders unchanged; return what was seen so far."""
        places = tuple(places)
        files: dict[str, list[pytest.Item]] = {}
        for item in self._items:
            file = item.nodeid.partition("::")[0]
            below = any(file == place or file.startswith(f"{place}/") for place in places)
            if below and file not in self._asked:
                files.setdefault(file, []).append(item)
        self._asked |= files.keys()
        seen = self._seen
        for file, result in self._each(files, lambda file: self._run(files[file], to_end=True)):
            if result is None:
                seen.failed.append(f"{file}: it does not end")
                continue
            for test, (seconds, reached, failed) in result.items():
                seen.seconds[test], seen.reached[test] = seconds, set(reached)
                seen.failed += [test] * failed
        return seen

    def noticed(self, wanted: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
        """Yield each key of a refusal with the test that notices its removal, or nothing."""
        named = {item.nodeid: item for item in self._items}

        def mutant(key: str) -> dict[str, Any]:
            self._switch.removed = key
            return self._run([named[test] for test in wanted[key]], to_end=False)

        for key, result in self._each(wanted, mutant, SECONDS):
            failed = [] if result is None else [test for test, row in result.items() if row[2]]
            yield key, "it hangs" if result is None else "".join(failed[:1])

    def _run(self, items: Sequence[pytest.Item], *, to_end: bool) -> dict[str, Any]:
        recorder = _Recorder()
        self._config.pluginmanager.register(recorder)
        result: dict[str, Any] = {}
        for item, following in zip(items, [*items[1:], None], strict=True):
            self._switch.reached.clear()
            began = time.perf_counter()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            failed = recorder.failed > 0
            seconds = time.perf_counter() - began
            result[item.nodeid] = (seconds, sorted(self._switch.reached), failed)
            recorder.failed = 0
            if failed and not to_end:
                break
        return result

    def _each(
        self,
        jobs: Iterable[str],
        work: Callable[[str], dict[str, Any]],
        seconds: float = _PROBE_SECONDS,
    ) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Yield what each job answers from its own process; None where it does not end."""
        left = list(jobs)
        running: dict[int, tuple[str, float]] = {}
        try:
            while left or running:
                while left and len(running) < self._workers:
                    job = left.pop(0)
                    running[self._fork(job, work)] = job, time.monotonic() + seconds
                time.sleep(0.01)
                for pid, (job, deadline) in list(running.items()):
                    ended, _ = os.waitpid(pid, os.WNOHANG)
                    if ended or time.monotonic() >= deadline:
                        del running[pid]
                        self._end(pid, ended=bool(ended))
                        yield job, self._answer(pid) if ended else None
        finally:
            for pid in running:
                self._end(pid, ended=False)

    def _end(self, pid: int, *, ended: bool) -> None:
        """End the process group of a fork, and what left it: an agent of gpg ends with its home."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        if not ended:
            os.waitpid(pid, 0)
        shutil.rmtree(self._folder(pid), ignore_errors=True)

    def _folder(self, pid: int) -> Path:
        return self._kept / f"tmp{pid}"

    def _answer(self, pid: int) -> dict[str, Any]:
        answer = self._kept / f"{pid}.json"
        died = {"it ends the process": (0.0, (), True)}
        return json.loads(answer.read_text()) if answer.exists() else died

    def _fork(self, job: str, work: Callable[[str], dict[str, Any]]) -> int:
        if pid := os.fork():
            return pid
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Tests print; the table is the parent's to print.
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        # What a killed fork cannot remove its parent removes.
        folder = self._folder(os.getpid())
        folder.mkdir()
        tempfile.tempdir = str(folder)
        # Two forks must not clean each other's temporary folders.
        self._config._tmp_path_factory._given_basetemp = folder / "pytest"  # type: ignore[attr-defined]
        try:
            answer = self._kept / f"{os.getpid()}.part"
            answer.write_text(json.dumps(work(job)))
            answer.rename(answer.with_suffix(".json"))
        finally:
            sys.stdout.flush()
            os._exit(0)


class _Recorder:
    def __init__(self) -> None:
        self.failed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what failed, in set-up, call and tear-down."""
        self.failed += report.failed
