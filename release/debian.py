"""The root file system: packages of Debian 12, each of the version and content that is locked.

Only what our processes use: an interpreter, C libraries, certificate authorities, time zones. No
shell, no package manager, no maintainer script is run; what scripts would make is made here. apt
finds and checks the packages in folders of our own, so it needs no root and leaves the machine's
state alone. Where Debian's packages are is what the machine's apt is set up for.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, TextIO

from controlplane import cache
from release import progress, trees
from release.errors import ReleaseError, UnavailableError
from release.trees import Node

REQUIREMENTS: Final = Path(__file__).parents[1] / "requirements"
ROOTS: Final = (
    "base-files",  # what the system is, and the licences that packages refer to
    "ca-certificates",
    "libstdc++6",  # of wheels
    "python3.11-minimal",
    "libpython3.11-stdlib",
    "tzdata",  # charts name time zones
)
"""What is wanted; the lock holds these packages and what they depend on."""
AUTHORITIES: Final = "etc/ssl/certs/ca-certificates.crt"
"""The certificates of all public authorities, where Go looks for them."""
LEFT_OUT: Final = frozenset(
    {
        # of maintainer scripts, which are not run
        "awk",
        "debconf",
        "openssl",
        # of modules of the standard library that are left out
        "libcrypt1",
        "libdb5.3",
        "libncursesw6",
        "libnsl2",
        "libreadline8",
        "libtinfo6",
        "libtirpc3",
        "media-types",
    }
)
"""Dependencies of no use to us."""

_KEPT_PROGRAM: Final = "usr/bin/python3.11"
_STDLIB: Final = "usr/lib/python3.11"
_DROPPED: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"usr/s?bin/(?!{Path(_KEPT_PROGRAM).name}$)",
        r"etc/(?!(os-release|debian_version)$)",
        r"var/",
        r"usr/lib/[^/]+/gconv/",  # character sets of iconv(3), which nothing calls
        # modules whose C libraries are left out, and what only shows or installs
        rf"{_STDLIB}/(curses|dbm|ensurepip|idlelib|lib2to3|pydoc_data|test|turtledemo)/",
        rf"{_STDLIB}/(sitecustomize|crypt|nturl2path|turtle)\.py",
        rf"{_STDLIB}/lib-dynload/(_crypt|_curses\w*|_dbm|nis|readline)\.",
        r"usr/share/(?!(doc/[^/]+/copyright$|common-licenses/|ca-certificates/|zoneinfo/))",
        r"usr/share/zoneinfo/(posix|right)/",
    )
)
_CERTIFICATES: Final = "usr/share/ca-certificates/"
_LINE: Final = re.compile(r"(?P<name>\S+)=(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})")
_MADE: Final = {
    "etc/passwd": "root:x:0:0:root:/:/nonexistent\nnobody:x:65534:65534:nobody:/:/nonexistent\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    # Without it, names of /etc/hosts would be asked for in DNS first.
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_LINKS: Final = {
    "usr/bin/python": "python3.11",
    "usr/bin/python3": "python3.11",
    # Where OpenSSL looks; Debian has the links in the package of its program.
    "usr/lib/ssl/cert.pem": f"/{AUTHORITIES}",
    "usr/lib/ssl/certs": "/etc/ssl/certs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package of the lock."""

    name: str
    version: str
    sha256: str
    architecture: str
    """The one that the lock is for; a package may be for all."""


def locked(architecture: str) -> tuple[Package, ...]:
    """Return the packages of the lock for Debian's ``architecture``.

    Raises:
        ReleaseError: there is no lock, or a line of it cannot be read.
    """
    path = lock_file(architecture)
    if not path.is_file():
        raise ReleaseError(f"no packages are locked for {architecture}: run `make lock`")
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return tuple(_parsed(line, path, architecture) for line in lines)


def lock_file(architecture: str) -> Path:
    """Return where the lock for an architecture is."""
    return REQUIREMENTS / f"debian-{architecture}.txt"


def tree(architecture: str) -> dict[str, Node]:
    """Return the root file system for an architecture.

    Raises:
        ReleaseError: a package can neither be found nor downloaded.
    """
    found: dict[str, Node] = {}
    for package, path in fetched(locked(architecture)):
        contents = trees.read(_unpacked("--fsys-tarfile", path))
        found |= {name: node for name, node in contents.items() if is_kept(name)}
        # Where scanners look for the packages of an image that has no package manager.
        found[f"var/lib/dpkg/status.d/{package.name}"] = Node(content=_unpacked("--field", path))
    return found | _made(found)


def is_kept(path: str) -> bool:
    """Tell whether a file of a package comes into the image."""
    return not any(pattern.match(path) for pattern in _DROPPED)


def fetched(packages: Sequence[Package]) -> Iterator[tuple[Package, Path]]:
    """Yield each package with its file, from the cache or the registry.

    Raises:
        ReleaseError: it cannot be downloaded, or is not what was locked.
    """
    directory = cache.directory("image", "debian")
    missing = [package for package in packages if not _place(directory, package).is_file()]
    if missing:
        _download(missing, directory)
    for package in packages:
        yield package, _place(directory, package)


class Apt:
    """apt for one architecture, with lists of its own, which are updated once."""

    def __init__(self, architecture: str) -> None:
        state = cache.directory("image", "apt", architecture)
        for folder in ("lists/partial", "cache/archives/partial"):
            state.joinpath(folder).mkdir(parents=True, exist_ok=True)
        state.joinpath("status").touch()
        settings = {
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Dir::State": state,
            "Dir::State::Status": state / "status",
            "Dir::Cache": state / "cache",
        }
        self._options = [f"--option={name}={value}" for name, value in settings.items()]
        progress.say(f"lists of Debian packages for {architecture}")
        self.run("apt-get", "update", "--quiet=2", "--error-on=any")

    def run(self, program: str, *arguments: str) -> str:
        """Run one of apt's programs and return what it prints.

        Raises:
            ReleaseError: it is not here.
            UnavailableError: it failed, for example because it reaches no registry.
        """
        answer = self._started(program, *arguments, stdout=subprocess.PIPE)
        return answer.stdout

    def download(self, packages: Sequence[Package], directory: Path) -> None:
        """Download packages into a directory, and show how it goes.

        Raises:
            UnavailableError: the machine's apt does not offer one of them, or reaches no registry.
        """
        names = (f"{package.name}={package.version}" for package in packages)
        try:
            self._started("apt-get", "download", *names, cwd=directory, stdout=sys.stderr)
        except UnavailableError as exc:
            raise UnavailableError(
                f"{exc}. If the registry has newer versions only, run `make lock`"
            ) from exc

    def _started(
        self, program: str, *arguments: str, stdout: int | TextIO, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        if shutil.which(program) is None:
            raise ReleaseError(
                f"{program} is not on this machine: build the image on Debian or Ubuntu,"
                " or with deploy/Containerfile"
            )
        answer = subprocess.run(
            [program, *self._options, *arguments],
            cwd=cwd,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise UnavailableError(f"{program} {arguments[0]} failed: {answer.stderr.strip()}")
        return answer


def keep(packages: Sequence[Package], downloaded: Path, directory: Path) -> None:
    """Move the files of packages from one directory to another, by their content.

    Raises:
        ReleaseError: what was downloaded is not what was locked.
    """
    files = {sha256(file.read_bytes()).hexdigest(): file for file in downloaded.iterdir()}
    for package in packages:
        if package.sha256 not in files:
            raise ReleaseError(
                f"{package.name}={package.version} has not the locked SHA-256"
                f" {package.sha256}: the lock was changed, or what the registry offers"
            )
        files[package.sha256].rename(_place(directory, package))


def _download(packages: Sequence[Package], directory: Path) -> None:
    progress.say(f"{len(packages)} Debian packages to download")
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        Apt(packages[0].architecture).download(packages, Path(scratch))
        keep(packages, Path(scratch), directory)


def _place(directory: Path, package: Package) -> Path:
    return directory / f"{package.name}_{package.sha256}.deb"


def _unpacked(form: str, path: Path) -> bytes:
    try:
        return subprocess.run(["dpkg-deb", form, path], capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as exc:
        raise ReleaseError(f"dpkg-deb cannot read {path}: {exc}") from exc


def _made(found: trees.Tree) -> dict[str, Node]:
    """Return what scripts of packages would have made, and who the users are."""
    authorities = sorted(path for path in found if path.startswith(_CERTIFICATES))
    bundle = b"".join(found[path].content.rstrip(b"\n") + b"\n" for path in authorities)
    made = {path: Node(content=text.encode()) for path, text in _MADE.items()}
    made |= {folder: Node(target=f"usr/{folder}") for folder in trees.MERGED}
    made |= {path: Node(target=target) for path, target in _LINKS.items()}
    made[AUTHORITIES] = Node(content=bundle)
    made["tmp"] = Node(folder=True, mode=0o1777)
    return made


def _parsed(line: str, path: Path, architecture: str) -> Package:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ReleaseError(f"{path}: {line!r} is no `NAME=VERSION --hash=sha256:…`")
    return Package(**found.groupdict(), architecture=architecture)
