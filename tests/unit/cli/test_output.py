"""Objects for programs."""

import json

import yaml

from cli import output
from toolkit.objects import Json

OBJECT: Json = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "GitRepository",
    "metadata": {"name": "apps", "managedFields": [{"manager": "kubectl"}]},
    "spec": {"ignore": "/*\n!/deploy\n"},
}


def test_single_object_is_printed_as_itself_without_managed_fields() -> None:
    printed = json.loads(output.render([OBJECT], "json", single=True))

    assert printed["metadata"] == {"name": "apps"}
    assert printed["spec"] == OBJECT["spec"]


def test_several_objects_are_a_list() -> None:
    printed = yaml.safe_load(output.render([OBJECT, OBJECT], "yaml", single=False))

    assert printed["kind"] == "List"
    assert [item["kind"] for item in printed["items"]] == ["GitRepository", "GitRepository"]


def test_text_of_several_lines_is_a_yaml_block() -> None:
    assert "ignore: |\n" in output.render([OBJECT], "yaml", single=True)


def test_repeated_values_make_no_yaml_anchors() -> None:
    assert "&id" not in output.render([OBJECT, OBJECT], "yaml", single=False)


def test_name_is_kind_group_and_name() -> None:
    core: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}

    assert output.render([OBJECT, core], "name", single=False) == (
        "gitrepository.source.toolkit.fluxcd.io/apps\nconfigmap/web\n"
    )
