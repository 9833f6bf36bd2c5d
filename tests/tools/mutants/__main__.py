"""Remove refusals one at a time and see a test fail: ``make mutants``.

Each refusal is tried against the tests nearest to it, then against those that ``mutants.toml``
names, until one notices. What nobody notices is an error unless the file excepts it with a reason,
and an exception that is not needed is one as well.
"""

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.tools.mutants import plan
from tests.tools.mutants.plan import Plan, Target
from tests.tools.mutants.refusals import Refusal
from tests.tools.mutants.switch import Switch
from tests.tools.mutants.trial import Forks


class Run:
    """A pytest plugin that tries mutants in place of running tests."""

    def __init__(self, todo: Sequence[tuple[Target, Refusal]], *, workers: int, loud: bool) -> None:
        self._switch = Switch()
        self._workers = workers
        self._loud = loud
        self._todo = {refusal.key: (target, refusal) for target, refusal in todo}
        self._began = time.monotonic()
        self.noticed: dict[str, str] = {}
        self.failed: list[str] = []

    def install(self) -> None:
        """Have the modules loaded with switches."""
        self._switch.install(sorted({refusal.path for _, refusal in self._todo.values()}))

    def places(self) -> list[str]:
        """Return every file and folder of tests that may be asked."""
        found = dict.fromkeys(
            place
            for target, refusal in self._todo.values()
            for level in target.levels(refusal.path)
            for place in level
        )
        return [place for place in found if not any(place.startswith(f"{at}/") for at in found)]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try one level after another, with what the levels before did not notice."""
        forks = Forks(session, self._switch, workers=self._workers)
        depth, tried = 0, set[tuple[str, str]]()
        while left := self._left(depth):
            seen = forks.probe(dict.fromkeys(place for _, level in left for place in level))
            self.failed = seen.failed
            wanted = {}
            for key, _ in left:
                tests = [test for test in seen.tests_of(key) if test not in seen.failed]
                if tests := [test for test in tests if (key, test) not in tried]:
                    wanted[key] = tests
                    tried |= {(key, test) for test in tests}
            self._say(f"level {depth + 1}: {len(left)} refusals, {len(wanted)} reached")
            for done, (key, test) in enumerate(forks.noticed(wanted), start=1):
                if test:
                    self.noticed[key] = test
                if self._loud or not done % 20:
                    self._say(f"{done}/{len(wanted)}  {key}  {test or 'UNNOTICED'}")
            depth += 1
        return True

    def _left(self, depth: int) -> list[tuple[str, list[str]]]:
        return [
            (key, levels[depth])
            for key, (target, refusal) in self._todo.items()
            if key not in self.noticed and len(levels := target.levels(refusal.path)) > depth
        ]

    def _say(self, text: str) -> None:
        spent = int(time.monotonic() - self._began)
        print(f"{spent // 60:3}:{spent % 60:02}  {text}", flush=True)  # noqa: T201


def main(argv: Sequence[str]) -> int:
    """Return 1 if a refusal went unnoticed, an exception is stale, or a test fails by itself."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("paths", nargs="*", help="files or folders of the product; all by default")
    parser.add_argument("--every", type=int, default=1, help="try one in so many")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--loud", action="store_true", help="tell which test noticed which")
    asked = parser.parse_args(argv)
    known = plan.read()
    todo = known.refusals(asked.paths)
    if asked.every > 1:
        # A sample is quick: a level beyond the first runs all tests of a folder, and refusals that
        # nobody notices reach the last level.
        todo = [
            (target, refusal)
            for target, refusal in todo
            if plan.own_tests(refusal.path) and refusal.key not in known.exceptions
        ][:: asked.every]
    run = Run(todo, workers=asked.workers, loud=asked.loud)
    run.install()
    options = ["-q", "-s", "-p", "no:cacheprovider", "--no-header", "--no-summary"]
    code = pytest.main([*options, *run.places()], plugins=[run])
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return 1
    return _told(known, [refusal for _, refusal in todo], run)


def _told(known: Plan, tried: Sequence[Refusal], run: Run) -> int:
    unnoticed = [refusal for refusal in tried if refusal.key not in run.noticed]
    bad = [refusal for refusal in unnoticed if refusal.key not in known.exceptions]
    stale = [
        *known.stale(refusal for _, refusal in known.refusals(())),
        *(refusal.key for refusal in tried if refusal.key in known.exceptions & run.noticed.keys()),
    ]
    lines = [f"UNNOTICED {one.path}:{one.line} {one.function}: {one.text}" for one in bad]
    lines += [f"STALE EXCEPTION {key}" for key in stale]
    lines += [f"FAILS WITHOUT A MUTANT {test}" for test in run.failed]
    levels = Counter("/".join(test.split("/")[:2]) for test in run.noticed.values())
    lines += [f"{count:5} noticed by {level}" for level, count in sorted(levels.items())]
    excepted = len(unnoticed) - len(bad)
    lines += [f"{len(tried)} refusals, {len(bad)} unnoticed, {excepted} excepted"]
    print("\n".join(lines))  # noqa: T201
    return 1 if bad or stale or run.failed else 0


if __name__ == "__main__":
    # An end from outside ends the forks, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
