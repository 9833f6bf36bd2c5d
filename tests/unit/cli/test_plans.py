"""How a plan is printed."""

from cli import plans


def test_hooks_are_named_as_what_has_not_run() -> None:
    plan = {
        "changes": [{"kind": "ConfigMap", "namespace": "shop", "name": "a", "action": "created"}],
        "hooks": [{"kind": "Job", "name": "migrate", "events": ["pre-install", "pre-upgrade"]}],
    }

    assert list(plans.lines(plan)) == [
        "► ConfigMap/shop/a created",
        "► Job/migrate is a hook (pre-install, pre-upgrade): it would run, and has not",
    ]
