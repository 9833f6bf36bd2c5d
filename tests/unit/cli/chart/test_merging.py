"""What components change becomes conditions, and what conditions cannot say is refused."""

from typing import Any

import pytest

from cli.chart import templates
from cli.chart.merging import MergeError, merge


def printed(value: Any, variants: dict[str, Any]) -> list[str]:
    return list(templates.Printer().object("Kind", merge(value, variants)))[1:]


def test_a_key_that_a_component_adds_is_there_with_it() -> None:
    lines = printed({"name": "a"}, {"ha": {"name": "a", "more": 1}})

    enabled = "{{- if $.Values.components.ha.enabled }}"
    assert lines == ['name: "a"', enabled, "more: 1", "{{- end }}"]


def test_a_key_that_a_component_removes_is_there_without_it() -> None:
    lines = printed({"name": "a", "more": 1}, {"by-namespace": {"name": "a"}})

    disabled = "{{- if (not $.Values.components.byNamespace.enabled) }}"
    assert lines == ['name: "a"', disabled, "more: 1", "{{- end }}"]


def test_each_component_appends_its_own_to_a_list() -> None:
    lines = printed({"args": ["a"]}, {"ha": {"args": ["a", "b"]}, "lockdown": {"args": ["a", "c"]}})

    assert [line.strip() for line in lines if '- "' in line] == ['- "a"', '- "b"', '- "c"']


def test_the_braces_of_other_templates_are_no_templates() -> None:
    assert printed({"name": "{{ $labels.name }}"}, {}) == ['name: "{{ "{{" }} $labels.name }}"']


@pytest.mark.parametrize(
    ("value", "variants"),
    [
        ({"a": 1}, {"ha": {"a": 2}, "lockdown": {"a": 3}}),
        ({"a": 1}, {"ha": {"a": 1, "b": 2}, "lockdown": {"a": 1, "b": 3}}),
        ({"a": ["x", "y"]}, {"ha": {"a": ["x"]}}),
        ({"a": ["x"]}, {"ha": {"a": ["w", "x"]}}),
    ],
    ids=["two values", "two additions", "a shorter list", "an item before others"],
)
def test_what_switches_cannot_tell_is_refused(value: Any, variants: dict[str, Any]) -> None:
    with pytest.raises(MergeError):
        merge(value, variants)
