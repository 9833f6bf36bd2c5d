"""What is said of markers that change nothing."""

from controllers.image.ineffective import problems
from controllers.image.updating import Draft
from toolkit.render.setters import Place


def test_markers_of_existing_policies_are_no_problem() -> None:
    draft = Draft(policies=("apps:web", "shop:web"))

    assert problems(draft, "apps", {"web"}) == []


def test_files_without_markers_are_no_problem() -> None:
    assert problems(Draft(), "apps", {"web"}) == []


def test_a_marker_of_no_policy_is_named() -> None:
    (found,) = problems(Draft(policies=("apps:typo", "apps:web")), "apps", {"web"})

    assert "'apps:typo'" in found
    assert "no ImagePolicy of this name in namespace 'apps'" in found


def test_what_a_repository_says_is_short_and_without_control_characters() -> None:
    draft = Draft(policies=(f"apps:\n\x1b[31m{'x' * 1_000_000}",))

    (found,) = problems(draft, "apps", {"web"})

    assert found.isprintable()
    assert len(found) < 500


def test_markers_of_other_namespaces_count_if_there_are_no_others() -> None:
    (found,) = problems(Draft(policies=("myapp:web",)), "flux-system", {"web"})

    assert "'myapp:web'" in found
    assert "own namespace" in found


def test_a_misplaced_marker_is_named_with_its_line() -> None:
    draft = Draft(policies=("apps:web",), misplaced=(Place(path="a/b.yaml", line=7),))

    (found,) = problems(draft, "apps", {"web"})

    assert found.startswith("a/b.yaml:7: ")
