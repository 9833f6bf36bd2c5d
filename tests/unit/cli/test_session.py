"""Which namespace a command works in."""

import pytest

from cli import session


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in session.NAMESPACE_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_option_wins_over_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_NAMESPACE", "of-variable")

    assert session.namespace("wanted", "of-context") == "wanted"


def test_our_variable_wins_over_fluxs_and_both_over_the_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLUX_SYSTEM_NAMESPACE", "of-flux")
    assert session.namespace("", "of-context") == "of-flux"

    monkeypatch.setenv("PENSTOCK_NAMESPACE", "ours")
    assert session.namespace("", "of-context") == "ours"


def test_context_counts_unless_it_says_default() -> None:
    assert session.namespace("", "team") == "team"
    assert session.namespace("", "default") == "flux-system"
    assert session.namespace("", "") == "flux-system"
