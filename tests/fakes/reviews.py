"""An API server for who asks it about users, and for nothing else."""

from typing import TYPE_CHECKING, Any

from toolkit.artifact.access import AUDIENCE

if TYPE_CHECKING:
    from asyncio import Event


class Reviews:
    """An API server that answers reviews as it is told to."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.user: dict[str, Any] = {
            "username": "system:serviceaccount:apps:rows",
            "uid": "1",
            "groups": ["system:serviceaccounts"],
            "extra": {"pod": ["a"]},
        }
        self.audiences: list[str] | None = [AUDIENCE]
        self.authenticated = True
        self.allowed = True
        self.release: Event | None = None

    async def request(self, method: str, path: str, *, body: dict[str, Any]) -> dict[str, Any]:
        assert method == "POST"
        self.asked.append(body)
        if self.release:
            await self.release.wait()
        if path.endswith("tokenreviews"):
            status = {"authenticated": self.authenticated, "user": self.user}
            return {"status": status | {"audiences": self.audiences}}
        return {"status": {"allowed": self.allowed}}
