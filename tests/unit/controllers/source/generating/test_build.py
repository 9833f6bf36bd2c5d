"""Copy operations do what ``cp`` would, and nothing that strangers' files would like."""

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controllers.source.generating.build import build
from controllers.source.generating.wire import BuildRequest, BuildResult
from crds.extensions import OutputArtifact
from toolkit.artifact.composition import limits
from toolkit.errors import StalledError, TransientError

Files = dict[str, str]


class World:
    """Sources on disk, and the builds made of them."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True)
        self.root = root
        self.sources: dict[str, str] = {}
        self.builds = 0

    def source(self, alias: str, files: dict[str, str | bytes]) -> Path:
        place = self.root / "sources" / alias
        place.mkdir(parents=True)
        for name, content in files.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.sources[alias] = str(place)
        return place

    def build(
        self, *artifacts: dict[str, Any], pattern: str = "", space: int = limits.TOTAL_BYTES
    ) -> BuildResult:
        into = self.root / f"build-{self.builds}"
        into.mkdir()
        self.builds += 1
        outputs = msgspec.convert(list(artifacts), list[OutputArtifact])
        return build(
            BuildRequest(
                artifacts=outputs, path_pattern=pattern, sources=self.sources, into=str(into)
            ),
            space=space,
        )

    def copy(self, *operations: tuple[str, str] | dict[str, Any]) -> Files:
        """Build one artifact from operations and return its files."""
        copies = [
            {"from": each[0], "to": each[1]} if isinstance(each, tuple) else each
            for each in operations
        ]
        (built,) = self.build({"name": "out", "copy": copies}).artifacts
        return files_of(Path(built.directory))


def files_of(root: Path) -> Files:
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "within" / "world")


TREE: dict[str, str | bytes] = {
    "root.yaml": "root",
    "apps/web/deploy.yaml": "web",
    "apps/web/notes.md": "notes",
    "apps/db/deploy.yaml": "db",
    "apps/db/sub/more.yml": "more",
}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (("@src/root.yaml", "@artifact/"), ["root.yaml"]),
        (("@src/root.yaml", "@artifact/x/y.yaml"), ["x/y.yaml"]),
        (("@src/root.yaml", "@artifact/x/"), ["x/root.yaml"]),
        (("@src/", "@artifact/"), sorted(TREE)),
        (("@src/**", "@artifact/"), sorted(TREE)),
        (("@src/apps/db", "@artifact/x"), ["x/db/deploy.yaml", "x/db/sub/more.yml"]),
        (("@src/apps/db/", "@artifact/x/"), ["x/db/deploy.yaml", "x/db/sub/more.yml"]),
        (("@src/apps/db/**", "@artifact/x/"), ["x/deploy.yaml", "x/sub/more.yml"]),
        (("@src/apps/web/*.yaml", "@artifact/"), ["deploy.yaml"]),
        (("@src/apps/*/deploy.yaml", "@artifact/"), ["db/deploy.yaml", "web/deploy.yaml"]),
        (("@src/apps/**/*.{yaml,yml}", "@artifact/x"), [
            *("x/db/deploy.yaml", "x/db/sub/more.yml", "x/web/deploy.yaml"),
        ]),
        (("@src/**/more.y?l", "@artifact/"), ["apps/db/sub/more.yml"]),
        (("@src/./apps//web/notes.md", "@artifact/./a//b"), ["a/b"]),
    ],
)  # fmt: skip
def test_an_operation_puts_files_where_cp_would(
    world: World, operation: tuple[str, str], expected: list[str]
) -> None:
    world.source("src", TREE)

    assert list(world.copy(operation)) == expected


def test_a_file_goes_into_a_directory_that_an_earlier_operation_made(world: World) -> None:
    world.source("src", TREE)

    found = world.copy(("@src/apps/web/", "@artifact/"), ("@src/root.yaml", "@artifact/web"))

    assert list(found) == ["web/deploy.yaml", "web/notes.md", "web/root.yaml"]


def test_later_operations_win_file_by_file(world: World) -> None:
    world.source("one", {"c/app": "one", "c/only": "one"})
    world.source("two", {"c/app": "two"})

    found = world.copy(("@one/**", "@artifact/"), ("@two/**", "@artifact/"))

    assert found == {"c/app": "two", "c/only": "one"}


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        (["*.md"], ["apps/db/deploy.yaml", "apps/db/sub/more.yml", "apps/web/deploy.yaml"]),
        (["**/db/**"], ["apps/web/deploy.yaml", "apps/web/notes.md"]),
        (["apps/db/"], ["apps/web/deploy.yaml", "apps/web/notes.md"]),
        (["*.{md,yml}", "apps/web"], ["apps/db/deploy.yaml"]),
    ],
)
def test_what_is_excluded_stays_out(world: World, exclude: list[str], left: list[str]) -> None:
    world.source("src", TREE)

    found = world.copy({"from": "@src/**", "to": "@artifact/", "exclude": [*exclude, "/root.yaml"]})

    assert list(found) == left


def test_an_exclude_may_be_relative_to_where_the_glob_begins(world: World) -> None:
    world.source("src", {"deploy/web/secrets/a": "", "deploy/web/b": "", "secrets/c": ""})

    found = world.copy(
        {"from": "@src/deploy/web/**", "to": "@artifact/", "exclude": ["secrets/**"]}
    )

    assert list(found) == ["b"]


def test_a_single_file_that_is_excluded_is_left_out(world: World) -> None:
    world.source("src", TREE)
    operation = {"from": "@src/root.yaml", "to": "@artifact/", "exclude": ["root.yaml"]}

    assert world.copy(operation) == {}


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"from": "@src/none.yaml"}, "'@src/none.yaml' does not exist"),
        ({"from": "@src/*.json"}, "no files match pattern '@src/\\*.json'"),
        ({"from": "@src/*.yaml", "exclude": ["*.yaml"]}, "all files matching .* were excluded"),
        ({"from": "@src/root.yaml", "strategy": "Extract"}, "is not a tarball"),
        ({"from": "@src/apps", "strategy": "Extract"}, "is a directory"),
        ({"from": "@src/**", "strategy": "Extract"}, "are not tarballs"),
    ],
)
def test_an_operation_that_finds_nothing_fails_and_says_so(
    world: World, operation: dict[str, Any], message: str
) -> None:
    world.source("src", TREE)

    with pytest.raises(TransientError, match=f"artifact 'out': .*{message}") as caught:
        world.copy({"to": "@artifact/"} | operation)

    assert caught.value.reason == "BuildFailed"


def test_files_and_directories_do_not_replace_each_other(world: World) -> None:
    world.source("src", {"a/b": "", "c": ""})

    with pytest.raises(TransientError, match="would be inside an existing file"):
        world.copy(("@src/c", "@artifact/a"), ("@src/a/b", "@artifact/a/b/"))
    with pytest.raises(TransientError, match="is a directory already"):
        world.copy(("@src/a/b", "@artifact/x/c/"), ("@src/c", "@artifact/x/"))


def test_executables_stay_executable_and_count_in_the_digest(world: World) -> None:
    place = world.source("src", {"run.sh": "#!/bin/sh"})
    operation = {"name": "out", "copy": [{"from": "@src/**", "to": "@artifact/"}]}
    (plain,) = world.build(operation).artifacts
    (place / "run.sh").chmod(0o755)

    (executable,) = world.build(operation).artifacts

    assert os.access(Path(executable.directory) / "run.sh", os.X_OK)
    assert executable.digest != plain.digest


def test_the_digest_depends_on_names_and_content_alone(world: World) -> None:
    place = world.source("src", {"a": "1", "b": "2"})
    operation = {"name": "out", "copy": [{"from": "@src/**", "to": "@artifact/"}]}
    (before,) = world.build(operation).artifacts
    os.utime(place / "a", (1, 1))
    (place / "b").unlink()
    (place / "b").write_text("2")

    (same,) = world.build(operation).artifacts
    (place / "b").rename(place / "c")
    (other,) = world.build(operation).artifacts

    hashed = {name: hashlib.sha256(text).hexdigest() for name, text in ((b"a", b"1"), (b"b", b"2"))}
    lines = b"".join(value.encode() + b"  " + name + b"\n" for name, value in hashed.items())
    assert before.digest == same.digest == hashlib.sha256(lines).hexdigest()  # Go's dirhash
    assert other.digest != before.digest


# Merging


def test_yaml_is_merged_as_helm_merges_values(world: World) -> None:
    world.source("chart", {"web/values.yaml": "image: {tag: '1e3', pull: yes}\nhosts: [a, b]\n"})
    world.source("git", {"prod.yaml": "image: {tag: v2}\nhosts: [c]\nextra: null\n"})

    found = world.copy(
        ("@chart/", "@artifact/"),
        {"from": "@git/prod.yaml", "to": "@artifact/web/values.yaml", "strategy": "Merge"},
    )

    merged = found["web/values.yaml"]
    assert "tag: v2" in merged
    assert "pull: true" in merged
    assert "- c" in merged
    assert "- a" not in merged
    assert "extra: null" in merged


def test_what_is_not_there_or_not_yaml_is_put_instead_of_merged(world: World) -> None:
    world.source("one", {"notes.txt": "one"})
    world.source("two", {"notes.txt": "two", "new.yaml": "a: 1\n"})

    found = world.copy(
        ("@one/**", "@artifact/"),
        {"from": "@two/**", "to": "@artifact/", "strategy": "Merge"},
    )

    assert found == {"notes.txt": "two", "new.yaml": "a: 1\n"}


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("hostile", "message"),
    [
        ("- a list\n", "it is not a mapping"),
        ("a: {b", "cannot be merged"),
        (BOMB, "nodes"),
        ("a: " + "[" * 5000 + "]" * 5000, "more than .* 100 levels"),
        ("a: " + "x" * (limits.MERGED_BYTES + 1), "too much to merge"),
    ],
    ids=["list", "malformed", "aliases", "depth", "size"],
)
def test_yaml_that_cannot_be_merged_is_refused(world: World, hostile: str, message: str) -> None:
    world.source("one", {"values.yaml": "a: 1\n"})
    world.source("two", {"values.yaml": hostile})

    with pytest.raises(TransientError, match=message) as caught:
        world.copy(
            ("@one/**", "@artifact/"),
            {"from": "@two/values.yaml", "to": "@artifact/", "strategy": "Merge"},
        )

    assert caught.value.reason == "BuildFailed"


# Extracting


def tarball(*members: tarfile.TarInfo | tuple[str, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for member in members:
            if isinstance(member, tuple):
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1].encode()))
            else:
                archive.addfile(member)
    return out.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def test_a_tarball_is_unpacked_over_what_is_there(world: World) -> None:
    world.source("src", {"web-1.0.0.tgz": tarball(("web/a", "new"), ("web/b", "new"))})
    world.source("old", {"web/a": "old", "web/c": "old"})

    found = world.copy(
        ("@old/**", "@artifact/charts/"),
        {"from": "@src/web-1.0.0.tgz", "to": "@artifact/charts/", "strategy": "Extract"},
    )

    assert found == {"charts/web/a": "new", "charts/web/b": "new", "charts/web/c": "old"}


def test_a_glob_extracts_tarballs_and_passes_over_the_rest(world: World) -> None:
    world.source(
        "src", {"x/one.tgz": tarball(("1", "")), "x/y/two.tar.gz": tarball(("2", "")), "x/z": ""}
    )

    found = world.copy({"from": "@src/x/**", "to": "@artifact/", "strategy": "Extract"})

    assert list(found) == ["1", "2"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tarball(("../../evil", "x")), "points outside"),
        (tarball(("/etc/evil", "x")), "points outside"),
        (tarball(("a", "1"), ("a", "2")), "occurs twice"),
        (tarball(link("a", "/etc"), ("a/passwd", "x"))[:-200], "cannot be unpacked"),
        (b"no tarball", "not gzip"),
    ],
    ids=["parent", "absolute", "twice", "cut", "garbage"],
)
def test_a_hostile_tarball_is_refused(
    world: World, tmp_path: Path, content: bytes, message: str
) -> None:
    world.source("src", {"evil.tgz": content})

    with pytest.raises(TransientError, match=message) as caught:
        world.copy({"from": "@src/evil.tgz", "to": "@artifact/", "strategy": "Extract"})

    assert caught.value.reason == "BuildFailed"
    assert not list(tmp_path.glob("**/evil"))


def test_a_link_in_a_tarball_is_passed_over(world: World) -> None:
    content = tarball(link("a", "/etc"), ("a/passwd", "mine"), link("b", "../.."), ("c", "c"))
    world.source("src", {"links.tgz": content})

    found = world.copy({"from": "@src/links.tgz", "to": "@artifact/", "strategy": "Extract"})

    assert found == {"a/passwd": "mine", "c": "c"}


def test_a_tarball_that_unpacks_to_too_much_is_refused(world: World) -> None:
    huge = tarfile.TarInfo("zeros")
    huge.size = 600 << 20
    world.source("src", {"bomb.tgz": gzip.compress(huge.tobuf())})

    with pytest.raises(TransientError, match="is larger than 512 MiB"):
        world.copy({"from": "@src/bomb.tgz", "to": "@artifact/", "strategy": "Extract"})


# Links and limits


def test_links_in_a_source_are_not_followed(world: World, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    place = world.source("src", {"a": "a"})
    (place / "link").symlink_to(tmp_path / "secret")
    (place / "up").symlink_to("..")
    os.mkfifo(place / "pipe")

    assert world.copy(("@src/**", "@artifact/")) == {"a": "a"}
    with pytest.raises(TransientError, match="does not exist"):
        world.copy(("@src/link", "@artifact/"))
    with pytest.raises(TransientError, match="does not exist"):
        world.copy(("@src/up/a", "@artifact/"))


def test_a_name_that_no_message_can_hold_is_escaped(world: World) -> None:
    place = world.source("src", {"a/x": ""})
    (place / "a").joinpath(os.fsdecode(b"\xff\n")).mkdir()
    (place / "a").joinpath(os.fsdecode(b"\xff\n/b")).write_text("b")

    (built,) = world.build(
        {"name": "out", "copy": [{"from": "@src/**", "to": "@artifact/"}]}
    ).artifacts

    assert built.files == 2


def test_all_artifacts_share_one_space(world: World) -> None:
    world.source("src", {"a": "x" * 1000})
    outputs = [
        {"name": f"a{number}", "copy": [{"from": "@src/a", "to": "@artifact/"}]}
        for number in range(3)
    ]

    with pytest.raises(TransientError, match="all artifacts together are larger"):
        world.build(*outputs, space=2500)
    assert len(world.build(*outputs, space=3000).artifacts) == 3


# Path patterns


MONOREPO: dict[str, str | bytes] = {
    "apps/Auth/envs/dev/app.yaml": "auth dev",
    "apps/Auth/envs/prod/app.yaml": "auth prod",
    "apps/pay/envs/dev/app.yaml": "pay dev",
    "apps/pay/README.md": "",
    "apps/file/envs": "not a directory",
}


def test_a_pattern_makes_an_artifact_of_every_directory(world: World) -> None:
    world.source("fleet", MONOREPO)

    result = world.build(
        {
            "name": "{app}-{env}",
            "copy": [{"from": "@fleet/apps/{app}/envs/{env}/**", "to": "@artifact/{app}/"}],
        },
        pattern="@fleet/apps/{app}/envs/{env}",
    )

    found = {each.name: (each.labels, files_of(Path(each.directory))) for each in result.artifacts}
    assert found == {
        "auth-dev": ({"app": "auth", "env": "dev"}, {"Auth/app.yaml": "auth dev"}),
        "auth-prod": ({"app": "auth", "env": "prod"}, {"Auth/app.yaml": "auth prod"}),
        "pay-dev": ({"app": "pay", "env": "dev"}, {"pay/app.yaml": "pay dev"}),
    }


def test_a_pattern_that_matches_nothing_makes_nothing(world: World) -> None:
    world.source("fleet", MONOREPO)

    result = world.build(
        {"name": "{x}", "copy": [{"from": "@fleet/{x}/**", "to": "@artifact/"}]},
        pattern="@fleet/clusters/{x}",
    )

    assert result.artifacts == []


@pytest.mark.parametrize(
    ("directories", "name", "message"),
    [
        (["Web", "web"], "{app}", "both make the artifact 'web'"),
        ([".hidden"], "app-{app}", "cannot be a label"),
        (["my app"], "x{app}x", "cannot be a label"),
        (["a**"], "x", "cannot be a label"),
        (["a" * 64], "{app}", "cannot be a label"),
        (["ok"], "{app}..x", "is not a name of an object"),
        (["a" * 63], "{app}" * 5, "is not a name of an object"),
    ],
)
def test_directories_that_make_no_names_are_refused(
    world: World, directories: list[str], name: str, message: str
) -> None:
    world.source("fleet", {f"apps/{each}/x": "" for each in directories})

    with pytest.raises(StalledError, match=message) as caught:
        world.build(
            {"name": name, "copy": [{"from": "@fleet/apps/{app}/**", "to": "@artifact/"}]},
            pattern="@fleet/apps/{app}",
        )

    assert caught.value.reason == "ValidationFailed"


def test_a_pattern_makes_a_bounded_number_of_artifacts(world: World) -> None:
    world.source("fleet", {f"apps/a{number}/x": "" for number in range(101)})
    outputs = [
        {"name": f"{{app}}-{number}", "copy": [{"from": "@fleet/apps/{app}/x", "to": "@artifact/"}]}
        for number in range(10)
    ]

    with pytest.raises(StalledError, match="more than 1000 artifacts"):
        world.build(*outputs, pattern="@fleet/apps/{app}")
