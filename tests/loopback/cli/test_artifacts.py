"""Artifacts in real registries: what ``flux`` reads and writes, logins, and what goes wrong."""

import asyncio
import base64
import json
import os
import ssl
import tarfile
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.fakes import distribution
from tests.fakes.registry import FakeRegistry, tarball
from tests.fakes.serving import serving
from tests.fakes.sigstore import Sigstore
from tests.fakes.sigstoreserver import ISSUER, SUBJECT, SigstoreServer, identity_token
from tests.tools import command
from tests.tools.command import Ended
from toolkit.remote.http.http import Endpoint, Http
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.registry import Registry
from toolkit.verify.cosign import cosign
from toolkit.verify.cosign.cosign import Identity, Policy
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.signature import VerificationError
from toolkit.verify.subject import Subject

NAME = "team/app"
SOURCE, REVISION = "https://git.example.com/app", "main@sha1:abc"
FROM = ("--source", SOURCE, "--revision", REVISION)
PLAIN = "--insecure-registry"
LOGIN = ":".join(distribution.LOGIN)


@pytest.fixture(autouse=True)
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give docker's settings a directory of their own, and return their file."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.setenv("COSIGN_PASSWORD", "s3cret")
    monkeypatch.delenv("SIGSTORE_ID_TOKEN", raising=False)
    (tmp_path / "docker").mkdir()
    return tmp_path / "docker" / "config.json"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a directory of manifests, a script, and what is left out."""
    root = tmp_path / "files"
    (root / "base").mkdir(parents=True)
    (root / "app.yaml").write_text("kind: ConfigMap\n")
    (root / "base" / "run.sh").write_text("#!/bin/sh\n")
    (root / "base" / "run.sh").chmod(0o755)
    (root / "logo.png").write_bytes(b"png")
    (root / "link").symlink_to("app.yaml")
    return root


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
async def host(registry_program: Path, tmp_path: Path) -> AsyncIterator[str]:
    async with distribution.serve(registry_program, tmp_path / "registry", login=True) as running:
        yield running


@pytest.fixture
async def server() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry() as running:
        yield running


def private_key(directory: Path) -> tuple[Path, bytes]:
    """Write a key that is encrypted as OpenSSL does; return its file and the public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    file = directory / "signing.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"s3cret"),
        )
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return file, public


def sign_in(docker: Path, host: str) -> None:
    """Leave a login as ``docker login`` does."""
    auth = base64.b64encode(LOGIN.encode()).decode()
    docker.write_text(json.dumps({"auths": {host: {"auth": auth}}}))


def leave(docker: Path, config: str) -> None:
    if config:
        docker.write_text(config)


async def flux(program: Path, docker: Path, *arguments: str) -> Ended:
    """Run Flux's command with the same settings."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        env={"PATH": os.defpath, "HOME": str(docker.parent), "DOCKER_CONFIG": str(docker.parent)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaint = await process.communicate()
    return Ended(process.returncode or 0, said.decode(), complaint.decode())


async def push(url: str, path: Path | str, *more: str) -> Ended:
    ended = await command.alone("push", "artifact", url, "-f", str(path), *FROM, PLAIN, *more)
    assert ended.code == 0, ended.err
    return ended


def tree(root: Path) -> dict[str, tuple[bytes, bool]]:
    return {
        str(file.relative_to(root)): (file.read_bytes(), os.access(file, os.X_OK))
        for file in root.rglob("*")
        if file.is_file()
    }


EXPECTED = {"app.yaml": (b"kind: ConfigMap\n", False), "base/run.sh": (b"#!/bin/sh\n", True)}


def words(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


async def test_flux_reads_what_we_push(
    host: str, files: Path, out: Path, docker: Path, flux_program: Path
) -> None:
    sign_in(docker, host)
    url = f"oci://{host}/{NAME}:v1"

    pushed = await push(url, files, "-o", "json")
    pulled = await flux(flux_program, docker, "pull", "artifact", url, "-o", str(out))
    theirs = await flux(flux_program, docker, "list", "artifacts", url.removesuffix(":v1"))
    ours = await command.alone("list", "artifacts", url.removesuffix(":v1"), PLAIN)

    assert pulled.code == 0, pulled.err
    assert tree(out) == EXPECTED
    digest = json.loads(pushed.out)["digest"]
    assert f"digest {host}/{NAME}@{digest}\n" in pulled.err
    assert words(ours.out) == words(theirs.out) != []
    assert words(ours.out)[1] == [f"{host}/{NAME}:v1", digest, SOURCE, REVISION]


async def test_we_read_what_flux_pushes(
    host: str, files: Path, out: Path, docker: Path, flux_program: Path
) -> None:
    sign_in(docker, host)
    url = f"oci://{host}/{NAME}:v2"

    pushed = await flux(flux_program, docker, "push", "artifact", url, f"--path={files}", *FROM)
    assert pushed.code == 0, pushed.err
    pulled = await command.alone("pull", "artifact", url, "-o", str(out), PLAIN)
    same = await command.alone("diff", "artifact", url, "--path", str(files), PLAIN)
    (files / "app.yaml").write_text("kind: Secret\n")
    (files / "new.yaml").write_text("kind: Service\n")
    changed = await command.alone("diff", "artifact", url, "--path", str(files), PLAIN)

    assert pulled.code == 0, pulled.err
    assert tree(out) == EXPECTED
    assert f"✔ source {SOURCE}\n✔ revision {REVISION}\n✔ digest {host}/{NAME}@sha256:" in pulled.err
    assert (same.code, same.out) == (0, "")
    assert (changed.code, changed.out) == (1, "► app.yaml changed\n► new.yaml created\n")


async def test_tag_promotes_and_rolls_back_the_same_bytes(
    host: str, files: Path, out: Path
) -> None:
    repository = f"oci://{host}/{NAME}"
    await push(f"{repository}:v1", files, "--creds", LOGIN)
    (files / "app.yaml").write_text("kind: Secret\n")
    second = await push(f"{repository}:v2", files, "--creds", LOGIN, "-o", "name")

    told = []
    for tag in ("v1", "v2", "v1"):
        tagged = await command.alone(
            *("tag", "artifact", f"{repository}:{tag}", "--tag", "stable"), PLAIN, "--creds", LOGIN
        )
        pulled = await command.alone(
            *("pull", "artifact", f"{repository}:stable", "-o", str(out)), PLAIN, "--creds", LOGIN
        )
        assert (tagged.code, pulled.code) == (0, 0), tagged.err + pulled.err
        told.append((out / "app.yaml").read_text())

    assert told == ["kind: ConfigMap\n", "kind: Secret\n", "kind: ConfigMap\n"]
    by_digest = await command.alone(
        "pull", "artifact", second.out.strip(), "-o", str(out), PLAIN, "--creds", LOGIN
    )
    assert (by_digest.code, (out / "app.yaml").read_text()) == (0, "kind: Secret\n")


@pytest.mark.parametrize(
    ("config", "hint"),
    [
        ("", "sign in with --creds or `docker login`: there is no"),
        ('{"credsStore": "desktop"}', "leaves this login to a credential helper"),
        ('{"auths": {"elsewhere.example": {"auth": "YTpi"}}}', "has no login for it"),
    ],
)
async def test_refusal_says_which_login_was_missing(
    host: str, files: Path, docker: Path, config: str, hint: str
) -> None:
    leave(docker, config)

    ended = await command.alone(
        "push", "artifact", f"oci://{host}/{NAME}:v1", "-f", str(files), *FROM, PLAIN
    )

    assert ended.code == 1
    assert hint in ended.err


async def test_refused_login_is_not_shown(host: str, files: Path) -> None:
    ended = await command.alone(
        *("push", "artifact", f"oci://{host}/{NAME}:v1", "-f", str(files), *FROM, PLAIN),
        *("--creds", "ada:wr0ng-pass"),
    )

    assert ended.code == 1
    assert "it was tried with --creds" in ended.err
    assert "wr0ng-pass" not in ended.err + ended.out


async def test_pushing_asks_the_token_service_for_both_rights(files: Path) -> None:
    async with FakeRegistry(bearer=("ada", "hunter2")) as server:
        await push(server.url(f"{NAME}:v1"), files, "--creds", "ada:hunter2")

        asked = [seen.path for seen in server.seen if seen.path.startswith("/token")]

    assert asked
    assert all("repository%3Ateam%2Fapp%3Apull%2Cpush" in path for path in asked)


async def test_files_come_from_standard_input(
    server: FakeRegistry, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stdin:
        buffer = BytesIO(b"kind: Secret\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    await push(server.url(f"{NAME}:v1"), "-")

    await command.alone("pull", "artifact", server.url(f"{NAME}:v1"), "-o", str(out), PLAIN)

    assert [content for content, _ in tree(out).values()] == [b"kind: Secret\n"]


async def test_reproducible_artifact_is_pushed_once(server: FakeRegistry, files: Path) -> None:
    first = await push(server.url(f"{NAME}:v1"), files, "--reproducible", "-o", "name")
    second = await push(server.url(f"{NAME}:v2"), files, "--reproducible", "-o", "name")

    assert first.out == second.out
    # Layer and config, once each.
    assert len([seen for seen in server.seen if "digest=" in seen.path]) == 2


# --- signatures ---------------------------------------------------------------------------------


async def proof(http: Http, server: FakeRegistry, tag: str, policy: Policy) -> str:
    """Return who signed what a tag means, as an OCIRepository finds it out."""
    registry = Registry(http, Endpoint(plain_http=True))
    repository = Repository.parse(server.url(NAME))
    subject = Subject(
        store=registry, repository=repository, descriptor=await registry.resolve(repository, tag)
    )
    found = await cosign.verify(subject, policy, public_root=PublicRoot(offline=True))
    return found.signer.identity


@pytest.mark.parametrize("referrers", [True, False])
async def test_signature_by_key_is_verified_by_us_and_by_cosign(
    http: Http, files: Path, tmp_path: Path, cosign_program: Path, *, referrers: bool
) -> None:
    key, public = private_key(tmp_path)
    (tmp_path / "signing.pub").write_bytes(public)
    async with FakeRegistry(referrers=referrers) as server:
        url = server.url(f"{NAME}:v1")

        ended = await push(url, files, "--key", str(key), "-o", "json")
        signer = await proof(http, server, "v1", Policy(keys={"a.pub": public}))
        process = await asyncio.create_subprocess_exec(
            *(cosign_program, "verify", "--key", tmp_path / "signing.pub"),
            *("--insecure-ignore-tlog=true", json.loads(ended.out)["url"].removeprefix("oci://")),
            env={"PATH": os.defpath, "HOME": str(tmp_path)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()

    assert signer == "a.pub"
    assert process.returncode == 0, said.decode()


async def test_second_signature_keeps_the_first_where_there_is_no_referrers_api(
    http: Http, files: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    keys = [private_key(tmp_path), private_key(tmp_path / "other")]
    async with FakeRegistry(referrers=False) as server:
        for file, _ in keys:
            await push(server.url(f"{NAME}:v1"), files, "--reproducible", "--key", str(file))

        policies = [Policy(keys={f"{place}.pub": key}) for place, (_, key) in enumerate(keys)]
        found = [await proof(http, server, "v1", policy) for policy in policies]

    assert found == ["0.pub", "1.pub"]


@pytest.mark.parametrize("version", [1, 2])
async def test_keyless_signature_is_verified_and_no_other_identity(
    http: Http, server: FakeRegistry, files: Path, tmp_path: Path, version: int
) -> None:
    sigstore = Sigstore()
    root = tmp_path / "trusted_root.json"
    root.write_bytes(sigstore.trusted_root())
    token = tmp_path / "token"
    token.write_text(identity_token() + "\n")
    async with SigstoreServer(sigstore) as services:
        await push(
            server.url(f"{NAME}:v1"),
            files,
            *("--sign", "--identity-token", str(token), "--trusted-root", str(root)),
            *("--fulcio-url", services.url, "--rekor-url", services.url),
            *("--rekor-version", str(version)),
            *("--timestamp-server-url", f"{services.url}/api/v1/timestamp"),
        )

    def signed_by(subject: str) -> Policy:
        identity = Identity(issuer=f"^{ISSUER}$", subject=subject)
        return Policy(keys={}, identities=(identity,), trusted_root=sigstore.trusted_root())

    assert await proof(http, server, "v1", signed_by("^https://github.com/acme/app/")) == SUBJECT
    with pytest.raises(VerificationError):
        await proof(http, server, "v1", signed_by("^https://github.com/eve/"))


async def test_tag_stays_where_it_was_if_signing_fails(
    server: FakeRegistry, files: Path, tmp_path: Path
) -> None:
    root = tmp_path / "trusted_root.json"
    root.write_bytes(Sigstore().trusted_root())
    await push(server.url(f"{NAME}:v1"), files, "--reproducible")
    before = dict(server.tags[NAME])
    (files / "app.yaml").write_text("kind: Secret\n")

    ended = await command.alone(
        *("push", "artifact", server.url(f"{NAME}:v1"), "-f", str(files), *FROM, PLAIN, "--sign"),
        *("--identity-token", identity_token(), "--trusted-root", str(root)),
        # No Fulcio is there.
        *("--fulcio-url", server.base, "--rekor-url", server.base),
    )

    assert ended.code == 1
    assert "cannot sign the artifact" in ended.err
    assert server.tags[NAME] == before


# --- what cannot be trusted ---------------------------------------------------------------------


def member(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    return entry, content


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as made:
        for entry, content in members:
            made.addfile(entry, BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("layer", "complaint"),
    [
        pytest.param(archive(member("good"), member("../evil")), "points outside", id="parent"),
        pytest.param(archive(member("good"), member("/evil")), "points outside", id="absolute"),
        pytest.param(archive(member("good"), member("good")), "occurs twice", id="twice"),
        pytest.param(archive(member("good"))[:-12], "cut off", id="cut off"),
    ],
)
async def test_bad_layer_leaves_nothing_behind(
    server: FakeRegistry, out: Path, layer: bytes, complaint: str
) -> None:
    server.push(NAME, "v1", [layer])

    ended = await command.alone("pull", "artifact", server.url(f"{NAME}:v1"), "-o", str(out), PLAIN)

    assert ended.code == 1
    assert complaint in ended.err
    assert [path.name for path in out.parent.rglob("*") if path.name in ("good", "evil")] == []


async def test_other_bytes_than_the_digest_says_are_refused(
    server: FakeRegistry, out: Path
) -> None:
    good, other = tarball({"a": "1"}), tarball({"b": "1"})
    server.push(NAME, "v1", [good])
    digest = next(digest for digest, blob in server.blobs.items() if blob == good)
    server.faults.content[digest] = other

    ended = await command.alone("pull", "artifact", server.url(f"{NAME}:v1"), "-o", str(out), PLAIN)

    assert ended.code == 1
    assert "the blob" in ended.err
    assert tree(out) == {}


async def test_no_link_of_the_directory_is_followed(
    server: FakeRegistry, out: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    (out / "directory").symlink_to(victim)
    (out / "file").symlink_to(victim / "file")
    server.push(NAME, "v1", [tarball({"directory/new": "1"})])
    server.push(NAME, "v2", [tarball({"file": "theirs"})])

    for tag in ("v1", "v2"):
        ended = await command.alone(
            "pull", "artifact", server.url(f"{NAME}:{tag}"), "-o", str(out), PLAIN
        )
        assert ended.code == 1
        assert "a symbolic link is on the way" in ended.err

    assert tree(victim) == {"file": (b"mine", False)}


async def test_login_does_not_follow_an_upload_to_another_server(files: Path) -> None:
    async with FakeRegistry() as elsewhere, FakeRegistry(basic=("ada", "hunter2")) as server:

        async def lead_away(request: web.Request, kind: str) -> web.StreamResponse | None:
            del kind
            if request.method != "POST":
                return None
            place = f"{elsewhere.base}{request.path}stolen"
            return web.Response(status=202, headers={"Location": place})

        server.faults.hook = lead_away

        ended = await command.alone(
            *("push", "artifact", server.url(f"{NAME}:v1"), "-f", str(files), *FROM, PLAIN),
            *("--creds", "ada:hunter2"),
        )

        assert ended.code == 1
        assert "names another server for the upload" in ended.err
        assert elsewhere.seen == []


async def test_registry_that_keeps_something_else_is_told(
    server: FakeRegistry, files: Path
) -> None:
    server.push(NAME, "other", [b"x"])
    other = server.tags[NAME]["other"]

    async def lie(request: web.Request, kind: str) -> web.StreamResponse | None:
        if request.method != "HEAD" or kind != "manifests":
            return None
        return web.Response(headers={"Docker-Content-Digest": other})

    server.faults.hook = lie

    ended = await command.alone(
        "push", "artifact", server.url(f"{NAME}:v1"), "-f", str(files), *FROM, PLAIN
    )

    assert ended.code == 1
    assert f"it has {other} there instead of sha256:" in ended.err


@pytest.mark.parametrize("verb", ["push", "pull", "tag", "list", "diff"])
async def test_a_registry_without_tls_is_told_with_the_flag_that_permits_it(
    verb: str, files: Path
) -> None:
    async with serving(_answer) as port:
        url = f"oci://127.0.0.1:{port}/{NAME}"
        rest = {
            "push": (f"{url}:v1", "--path", str(files), *FROM),
            "pull": (f"{url}:v1", "--output", str(files)),
            "tag": (f"{url}:v1", "--tag", "v2"),
            "list": (url,),
            "diff": (f"{url}:v1", "--path", str(files)),
        }
        ended = await command.alone(verb, "artifact", *rest[verb])

    assert ended.code != 0
    assert "does not speak TLS" in ended.err
    assert "--insecure-registry" in ended.err
    assert "docker login" not in ended.err


@pytest.mark.parametrize("verb", ["pull", "list"])
async def test_an_unknown_authority_is_told_with_the_flag_that_names_it(
    verb: str, tmp_path: Path
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    async with serving(_answer, tls=tls) as port:
        url = f"oci://127.0.0.1:{port}/{NAME}"
        rest = {"pull": (f"{url}:v1", "--output", str(tmp_path)), "list": (url,)}
        ended = await command.alone(verb, "artifact", *rest[verb])

    assert ended.code == 1
    assert "--ca-file" in ended.err
    assert "docker login" not in ended.err


async def _answer(_: web.Request) -> web.Response:
    return web.Response(status=404)
