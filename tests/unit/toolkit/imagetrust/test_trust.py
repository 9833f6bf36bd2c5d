"""A policy for images that cannot be read trusts nobody, whatever can be read of it."""

import msgspec
import pytest

from crds.policy_image import ImageVerificationPolicy
from tests.fakes.apiserver import FakeApiServer
from toolkit.errors import StalledError
from toolkit.imagetrust.trust import Trust
from toolkit.kube.secrets import Secrets
from toolkit.kube.undecoded import Undecoded
from toolkit.policy import unreadable


async def test_a_policy_that_cannot_be_read_trusts_nobody() -> None:
    raw = (
        b'{"metadata": {"name": "strict"}, "spec": {"images": ["**"], "verifiers": [{"name": 1}]}}'
    )
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(raw, type=ImageVerificationPolicy)
    policy = unreadable.image_policy(Undecoded(raw, caught.value))

    async with FakeApiServer().running() as client:
        with pytest.raises(StalledError, match=r"spec\.verifiers\[0\]\.name") as refused:
            await Trust(Secrets(client), "penstock-system").of(policy)

    assert "nothing satisfies it" in str(refused.value)
