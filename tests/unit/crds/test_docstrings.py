"""Texts below attributes reach the schema, also for the versions that do not repeat them."""

from crds import docstrings, source, source_helm, source_helm_v1beta2, source_v1beta1


def test_lines_of_a_text_are_joined() -> None:
    text = docstrings.field_docs(source.GitRepositorySpec)["interval"]

    assert "\n" not in text
    assert text.startswith("How often to ask the repository for a new revision, e.g. `5m`. Asking")


def test_an_older_version_borrows_texts_from_the_newest() -> None:
    newest = docstrings.field_docs(source.GitRepositorySpec)
    oldest = docstrings.field_docs(source_v1beta1.GitRepositorySpec)

    assert oldest["url"] == newest["url"]


def test_an_older_versions_own_text_wins() -> None:
    newest = docstrings.field_docs(source.GitRepositoryVerification)
    oldest = docstrings.field_docs(source_v1beta1.GitRepositoryVerification)

    assert oldest["mode"] != newest["mode"]
    assert oldest["secret_ref"] == newest["secret_ref"]


def test_a_struct_that_extends_another_has_its_texts_and_its_own() -> None:
    texts = docstrings.field_docs(source_helm_v1beta2.HelmChartSpec)

    newest = docstrings.field_docs(source_helm.HelmChartSpec)
    assert texts.keys() - newest.keys() == {"access_from"}
    assert texts["chart"] == newest["chart"]
