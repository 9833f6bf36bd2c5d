"""Which plugins run."""

import pytest

from webhooks import component
from webhooks.callers import Callers
from webhooks.plugins import PLUGINS

PROVEN = Callers(certified=True)


def test_plugin_that_nobody_knows_cannot_be_disabled() -> None:
    with pytest.raises(ValueError, match="--disable-admission-plugins: nonsense is not one of "):
        component._enabled(PLUGINS, ["nonsense"], PROVEN)


def test_disabled_plugin_is_left_out() -> None:
    first, *others = PLUGINS

    assert component._enabled(PLUGINS, [first.name], PROVEN) == others
