"""What is measured with for HelmReleases: the chart, and the objects of the floor."""

import yaml

from bench import helmreleases


def test_chart_names_its_objects_by_the_release_and_no_namespace() -> None:
    files = helmreleases.chart("1.2.3")

    rendered = [
        yaml.safe_load(text.replace("{{ .Release.Name }}", "app-0001"))
        for path, text in files.items()
        if path.startswith("templates/")
    ]
    assert yaml.safe_load(files["Chart.yaml"])["version"] == "1.2.3"
    assert {each["kind"] for each in rendered} == {
        *("ConfigMap", "Deployment", "Service", "ServiceAccount")
    }
    assert [each["metadata"] for each in rendered] == [{"name": "app-0001"}] * 4


def test_floor_has_the_same_objects_and_a_record() -> None:
    objects = helmreleases._objects("app-0001")

    kinds = [each["kind"] for each in objects]
    assert kinds == ["Secret", "ConfigMap", "ServiceAccount", "Service", "Deployment"]
    assert {each["metadata"]["namespace"] for each in objects} == {helmreleases.FLOOR}
    assert len(objects[0]["data"]["r"]) > 4000
