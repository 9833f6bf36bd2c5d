"""The repositories of a commit's submodules (gitmodules(5))."""

from io import BytesIO

from dulwich.config import ConfigFile, parse_submodules

from toolkit.remote.git import pack as gitpack
from toolkit.remote.git.errors import GitError
from toolkit.remote.git.pack import Pack
from toolkit.remote.git.tree import Item, Plan
from toolkit.remote.git.url import GitUrl


def find(pack: Pack, plan: Plan, url: GitUrl) -> list[tuple[Item, GitUrl]]:
    """Return each submodule of a plan with the address to fetch it from.

    Raises:
        GitError: ``.gitmodules`` is missing, damaged, or does not name a submodule.
        GitSpecError: an address is of a kind that is not fetched from.

    """
    if not plan.submodules:
        return []
    addresses = _addresses(pack, plan)
    found = []
    for item in plan.submodules:
        address = addresses.get(item.path)
        if address is None:
            raise GitError(
                f"submodule '{item.path.decode('utf-8', 'replace')}' is not in .gitmodules: add it "
                "there, or remove it from the repository (git rm --cached)"
            )
        found.append((item, url.join(address)))
    return found


def _addresses(pack: Pack, plan: Plan) -> dict[bytes, str]:
    if plan.gitmodules is None:
        name = plan.submodules[0].path.decode("utf-8", "replace")
        raise GitError(
            "the repository has submodules but no file .gitmodules: add it, or remove the "
            f"submodule '{name}' (git rm --cached)"
        )
    try:
        config = ConfigFile.from_file(BytesIO(pack.read(plan.gitmodules, gitpack.BLOB)))
        return {path: address.decode() for path, address, _ in parse_submodules(config)}
    except ValueError as exc:
        raise GitError(f".gitmodules in the repository is damaged: {exc}") from exc
