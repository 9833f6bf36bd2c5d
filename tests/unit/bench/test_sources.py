"""What the bench of sources tells of the registry."""

from bench import sources
from tests.fakes.serving import Seen


def test_requests_are_told_by_kind_and_method_for_each_object() -> None:
    head = "/v2/manifests/{}/manifests/latest"
    requests = [
        Seen("HEAD", head.format("app-0001"), {}),
        Seen("HEAD", head.format("app-0002"), {}),
        Seen("HEAD", "/v2/charts/app-0001/manifests/1.0.0", {}),
        Seen("GET", "/v2/charts/app-0001/tags/list?n=1000", {}),
        Seen("GET", "/v2/", {}),
    ]

    assert sources.asked(requests, 2) == (
        "HelmChart GET tags: 0.50, HelmChart HEAD manifests: 0.50, "
        "OCIRepository HEAD manifests: 1.00, registry GET /v2/: 0.50"
    )
