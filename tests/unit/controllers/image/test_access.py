"""Which image an ImageRepository means."""

import msgspec
import pytest

from controllers.image import access
from crds.image import ImageRepository
from toolkit.errors import StalledError


def repository(image: str) -> ImageRepository:
    return msgspec.convert({"spec": {"image": image, "interval": "1m"}}, ImageRepository)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("https://ghcr.io/a", r"spec\.image: it must not have a scheme: write it as"),
        ("ghcr.io/a:v1", r"spec\.image: it must not have a tag or a digest"),
        ("ghcr.io/a@sha256:0", r"spec\.image: it must not have a tag or a digest"),
    ],
)
def test_what_is_more_than_a_name_is_told(image: str, words: str) -> None:
    with pytest.raises(StalledError, match=words) as refused:
        access.reference(repository(image))

    assert refused.value.reason == "ImageURLInvalid"
