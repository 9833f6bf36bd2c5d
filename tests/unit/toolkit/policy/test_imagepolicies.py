"""Which policies an image needs, and what of an update is new."""

from typing import Any

import msgspec
import pytest

from crds.policy_image import ImageVerificationPolicy
from toolkit.policy import imagepolicies, imagereference

Json = dict[str, Any]
DIGEST = "sha256:" + "ab" * 32


def policy(*patterns: str, **spec: Any) -> ImageVerificationPolicy:
    verifiers = [{"name": "release", "notation": {"secretRef": {"name": "trust"}}}]
    return msgspec.convert(
        {
            "metadata": {"name": spec.pop("name", "signed")},
            "spec": {"images": list(patterns or ("**",)), "verifiers": verifiers, **spec},
        },
        ImageVerificationPolicy,
    )


def pod(*texts: str) -> Json:
    containers = [{"name": f"c{number}", "image": text} for number, text in enumerate(texts)]
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers}}


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("**", "nginx"),
        ("ghcr.io/acme/*", "ghcr.io/acme/app:v1"),
        ("ghcr.io/acme/*", "ghcr.io:443/acme/app:v1"),
        ("ghcr.io:443/acme/*", "ghcr.io/acme/app:v1"),
        ("ghcr.io/acme/**", "ghcr.io/acme/team/app"),
        ("*/acme/app", f"ghcr.io/acme/app@{DIGEST}"),
        ("docker.io/library/nginx", "nginx"),
        ("docker.io/library/*", "registry-1.docker.io/library/nginx"),
        ("index.docker.io/library/*", "docker.io/nginx"),
        ("docker.io/**", "acme/app"),
        ("registry:5000/app", "registry:5000/app"),
    ],
)
def test_image_is_named_however_it_is_spelt(pattern: str, image: str) -> None:
    assert imagepolicies.binds(policy(pattern), imagereference.parse(image))


@pytest.mark.parametrize(
    ("pattern", "image"),
    [
        ("ghcr.io/acme/*", "ghcr.io/acme/team/app"),
        ("ghcr.io/acme/*", "ghcr.io/acme-two/app"),
        ("ghcr.io/acme/app", "ghcr.io/acme/app-two"),
        ("ghcr.io/acme/app", "evil.example/ghcr.io/acme/app"),
        ("ghcr.io/acme/**", "ghcr.io.evil.example/acme/app"),
        ("ghcr.io/acme/**", "ghcrxio/acme/app"),
    ],
)
def test_patterns_are_anchored(pattern: str, image: str) -> None:
    assert not imagepolicies.binds(policy(pattern), imagereference.parse(image))


def test_excluded_image_is_not_named() -> None:
    chosen = policy("ghcr.io/acme/**", exclude=["ghcr.io/acme/tools/*"])

    assert imagepolicies.binds(chosen, imagereference.parse("ghcr.io/acme/app"))
    assert not imagepolicies.binds(chosen, imagereference.parse("ghcr.io/acme/tools/lint"))


def test_all_verifiers_are_required_unless_fewer_are() -> None:
    two = [{"name": name, "notation": {"secretRef": {"name": name}}} for name in ("a", "b")]

    assert imagepolicies.required(policy(verifiers=two)) == 2
    assert imagepolicies.required(policy(verifiers=two, required=1)) == 1


def test_only_images_that_were_not_there_are_new() -> None:
    old, new = pod("a", "b"), pod("b", "c", "a")

    assert [image.text for image in imagepolicies.changed(new, old)] == ["c"]
    assert [image.text for image in imagepolicies.changed(new, None)] == ["b", "c", "a"]


def test_tag_that_was_pinned_at_the_same_place_is_put_back() -> None:
    old, new = pod(f"app:v1@{DIGEST}", "side"), pod("app:v1", "side:v2")

    back, left = imagepolicies.restored(imagepolicies.changed(new, old), old)

    assert list(back.values()) == [f"app:v1@{DIGEST}"]
    assert [image.text for image in left] == ["side:v2"]


@pytest.mark.parametrize("text", ["app:v2", "app", "other:v1"])
def test_another_tag_is_not_put_back(text: str) -> None:
    old, new = pod(f"app:v1@{DIGEST}"), pod(text)

    back, left = imagepolicies.restored(imagepolicies.changed(new, old), old)

    assert not back
    assert [image.text for image in left] == [text]


def test_pinned_digest_of_another_place_is_not_put_back() -> None:
    old, new = pod("side", f"app:v1@{DIGEST}"), pod("app:v1", "side")

    back, left = imagepolicies.restored(imagepolicies.changed(new, old), old)

    assert not back
    assert [image.text for image in left] == ["app:v1"]
