"""Sessions of aiohttp that are open: what somebody forgot, or keeps for longer than needed."""

import gc

import aiohttp


def opened() -> frozenset[aiohttp.ClientSession]:
    """Return those of this process; take what was open before from what is open after."""
    found = [each for each in gc.get_objects() if type(each) is aiohttp.ClientSession]
    return frozenset(session for session in found if not session.closed)
