"""A process is kept on one core as long as it is measured."""

import os
import subprocess
import sys

import pytest

from bench import cores


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core for all")
def test_what_is_measured_and_this_process_share_no_core_within_the_block() -> None:
    before = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        with cores.apart([child.pid]) as alone:
            theirs, ours = os.sched_getaffinity(child.pid), os.sched_getaffinity(0)
        after = os.sched_getaffinity(child.pid), os.sched_getaffinity(0)
        child.communicate(b"\n")

    assert alone
    assert len(theirs) == 1
    assert theirs | ours == before
    assert not theirs & ours
    assert after == (before, before)


def test_a_process_that_has_ended_within_the_block_is_no_error() -> None:
    before = os.sched_getaffinity(0)
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child,
        cores.apart([child.pid]),
    ):
        child.communicate(b"\n")

    assert os.sched_getaffinity(0) == before


def test_nothing_is_moved_where_nothing_is_measured() -> None:
    before = os.sched_getaffinity(0)

    with cores.apart([]) as alone:
        assert os.sched_getaffinity(0) == before

    assert not alone
