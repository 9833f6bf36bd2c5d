"""What runtimes take an image's name for, and what they refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.policy import imagereference
from toolkit.policy.imagereference import ImageReferenceError

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("acme/app", "docker.io/acme/app:latest"),
        ("acme/team/app", "docker.io/acme/team/app:latest"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("index.docker.io/library/nginx", "docker.io/library/nginx:latest"),
        ("registry-1.docker.io/acme/app", "docker.io/acme/app:latest"),
        ("docker.io:443/nginx", "docker.io/library/nginx:latest"),
        ("ghcr.io/acme/app", "ghcr.io/acme/app:latest"),
        ("ghcr.io:443/acme/app:v1", "ghcr.io/acme/app:v1"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:V1", "localhost:5000/app:V1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("[0:0:0:0:0:0:0:1]:5000/app", "[::1]:5000/app:latest"),
        (f"ghcr.io/acme/app@{DIGEST}", f"ghcr.io/acme/app@{DIGEST}"),
        (f"ghcr.io/acme/app:v1@{DIGEST}", f"ghcr.io/acme/app:v1@{DIGEST}"),
        ("sha/app", "docker.io/sha/app:latest"),
        ("shaarli:v1", "docker.io/library/shaarli:v1"),
        ("mdbook:v1", "docker.io/library/mdbook:v1"),
        ("ghcr.io/acme/sha256:abcd", "ghcr.io/acme/sha256:abcd"),
        ("cafe", "docker.io/library/cafe:latest"),
        ("deadbeefcafe:v1", "docker.io/library/deadbeefcafe:v1"),
        (f"app:{'ab' * 20}", f"docker.io/library/app:{'ab' * 20}"),
        ("ghcr.io/a__b/c-d.e--f:x_y.z-1", "ghcr.io/a__b/c-d.e--f:x_y.z-1"),
    ],
)
def test_name_is_read_as_runtimes_read_it(text: str, meant: str) -> None:
    assert str(imagereference.parse(text)) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " nginx",
        "nginx ",
        "nginx\n",
        "Nginx",
        "ghcr.io/Acme/app",
        "GHCR.IO/acme/app",
        "ghcr.io./acme/app",
        "ghcr.io/acme/app:",
        "ghcr.io/acme/app:-v1",
        "ghcr.io/acme/app:v1:v2",
        "ghcr.io/acme/app@",
        "ghcr.io/acme/app@sha256:abc",
        f"ghcr.io/acme/app@{DIGEST.upper()}",
        "ghcr.io/acme/app@sha256:" + "AB" * 32,
        f"ghcr.io/acme/app@{DIGEST}@{DIGEST}",
        f"ghcr.io/acme/app@{DIGEST}:v1",
        "ghcr.io//app",
        "ghcr.io/acme/../app",
        "ghcr.io/acme/app/",
        "https://ghcr.io/acme/app",
        "user@ghcr.io/acme/app",
        "ghcr.io:0/app",
        "ghcr.io:0443/app",
        "ghcr.io:65536/app",
        "ghcr.io:99999999999999999999999/app",
        "[::g]/app",
        "[1:2:3:4:5:6:7:8:9]/app",
        "ghcr.io/acme/ápp",
        "ab" * 32,
        "ghcr.io/" + "a" * 300,
        "a" * 100_000,
        r"C:\images\app",
    ],
)
def test_what_runtimes_refuse_or_disagree_about_is_refused(text: str) -> None:
    with pytest.raises(ImageReferenceError) as caught:
        imagereference.parse(text)

    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text",
    [
        DIGEST,
        "sha256:abcd",
        "sha256:a",
        "sha256",
        "sha256:latest",
        f"sha256:abcd@{DIGEST}",
        f"sha256@{DIGEST}",
        "sha384:" + "ab" * 48,
        "sha512:" + "ab" * 64,
        "sha512:abcd",
        "sha1:" + "ab" * 20,
        "sha3-256:" + "ab" * 32,
        "sha512-256:abcd",
        "md5:" + "ab" * 16,
        "blake3:" + "ab" * 32,
        "blake2b-256:abcd",
        "unheard-of:" + "ab" * 32,
        "unheard-of:" + "AB" * 48,
        f"library/{DIGEST}",
        f"docker.io/{DIGEST}",
        f"docker.io/library/{DIGEST}",
        f"index.docker.io/{DIGEST}",
        f"registry-1.docker.io:443/library/{DIGEST}",
        "ab" * 32,
        "ab" * 6,
        "sha256:" + "AB" * 32,
    ],
)
def test_a_name_that_runtimes_look_up_as_an_id_is_refused(text: str) -> None:
    with pytest.raises(ImageReferenceError, match="as the ID of any image on the node"):
        imagereference.parse(text)


@pytest.mark.parametrize("text", ["SHA256:" + "ab" * 32, "Sha256:abcd", "AB" * 32])
def test_a_digest_in_upper_case_is_no_name(text: str) -> None:
    with pytest.raises(ImageReferenceError):
        imagereference.parse(text)


@pytest.mark.parametrize("text", ["ghcr.io/acme/" + "a" * 1024, "ghcr.io/acmé/app"])
def test_what_cannot_be_a_name_is_refused_before_it_is_taken_apart(text: str) -> None:
    with pytest.raises(ImageReferenceError, match="too long, or has characters"):
        imagereference.parse(text)


@given(st.text(max_size=80) | st.from_regex(r"[a-z0-9.:/@_-]{1,80}", fullmatch=True))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    try:
        reference = imagereference.parse(text)
    except ImageReferenceError:
        return

    assert imagereference.parse(str(reference)) == reference


def test_pinned_name_keeps_what_was_written_and_the_digest_counts() -> None:
    pinned = imagereference.pinned("nginx:1.27", DIGEST)

    assert pinned == f"nginx:1.27@{DIGEST}"
    assert imagereference.parse(pinned).digest == DIGEST
    assert imagereference.without_digest(pinned) == "nginx:1.27"
