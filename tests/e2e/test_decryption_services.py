"""Secrets that are encrypted for key services: opened at admission, and in the controller.

The rough world's processes look for AWS where our stand-in is (``tests.fakes.keyservices``), and
may use tokens of ServiceAccounts.
"""

import pytest
import yaml

from tests.e2e.conftest import CONFIG_MAP, SECRET, Space, condition, config_map, owned
from tests.e2e.decryption import armed, assert_unseen, give_keys, secret, start, values_of
from tests.fakes import kmsaws
from tests.fakes.keyservices import ROLE, KeyServices
from tests.fakes.kmsvault import TOKEN
from toolkit.decrypt import envelope

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough]

WORD = "word-59ad0c7e21"


@pytest.fixture
def services(key_services: KeyServices) -> KeyServices:
    """Return the services that the rough world's processes ask; a user may decrypt."""
    key_services.aws.allowed = {kmsaws.USER}
    return key_services


async def test_vault_opens_a_secret_at_admission(space: Space, services: KeyServices) -> None:
    await armed(space)
    await give_keys(space, services.vault_entries)

    await start(space, {"s.yaml": services.for_vault(secret("s", word=WORD))})
    await space.ready()

    stored = await space.get(SECRET, "s")
    assert await values_of(space, "s") == {"word": WORD}
    assert owned(stored) == [f"f:{envelope.CARRIER}"]
    assert envelope.recipients(stored) == (f"hc_vault:{services.vault.address}/transit/sops",)
    await assert_unseen(space, WORD)
    await assert_unseen(space, TOKEN)


async def test_aws_opens_a_secret_at_admission(space: Space, services: KeyServices) -> None:
    await armed(space)
    await give_keys(space, services.aws_entries)

    await start(space, {"s.yaml": services.for_aws(secret("s", word=WORD), app="db")})
    await space.ready()

    assert await values_of(space, "s") == {"word": WORD}
    assert owned(await space.get(SECRET, "s")) == [f"f:{envelope.CARRIER}"]
    await assert_unseen(space, WORD)


async def test_the_controller_opens_what_cannot_travel_encrypted(
    space: Space, services: KeyServices
) -> None:
    await give_keys(space, {**services.vault_entries, **services.aws_entries})
    files: dict[str, str | bytes] = {
        "a.yaml": services.for_vault(yaml.safe_load(config_map("a", word=WORD))),
        "b.yaml": services.for_aws(yaml.safe_load(config_map("b", word=WORD))),
    }

    await start(space, files)
    await space.ready()

    for name in ("a", "b"):
        assert (await space.get(CONFIG_MAP, name))["data"] == {"word": WORD}
    await assert_unseen(space, WORD)


async def test_an_account_opens_at_admission_and_in_the_controller_without_a_secret(
    space: Space, services: KeyServices
) -> None:
    await armed(space)
    services.trust(space.namespace, "team")
    metadata = {
        "name": "team",
        "namespace": space.namespace,
        "annotations": {"eks.amazonaws.com/role-arn": ROLE},
    }
    await space.world.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    files: dict[str, str | bytes] = {
        "s.yaml": services.for_aws(secret("s", word=WORD)),
        "c.yaml": services.for_aws(yaml.safe_load(config_map("c", word=WORD))),
    }

    await start(space, files, decryption={"provider": "sops", "serviceAccountName": "team"})
    await space.ready()

    assert await values_of(space, "s") == {"word": WORD}
    assert owned(await space.get(SECRET, "s")) == [f"f:{envelope.CARRIER}"]
    assert (await space.get(CONFIG_MAP, "c"))["data"] == {"word": WORD}


async def test_a_right_that_is_missing_is_told_and_its_grant_is_noticed(
    space: Space, services: KeyServices
) -> None:
    await armed(space)
    await give_keys(space, services.aws_entries)
    services.aws.allowed = set()

    files = {"s.yaml": services.for_aws(secret("s", word=WORD))}
    await start(space, files, retryInterval="500ms")
    obj = await space.refused(saying="AccessDeniedException")
    services.aws.allowed = {kmsaws.USER}
    await space.ready()

    message = condition(obj, "Ready")["message"]
    assert f"AWS KMS key '{kmsaws.ARN}' refuses entry 'sops.aws-kms'" in message
    assert "allow it kms:Decrypt on the key" in message
    assert await values_of(space, "s") == {"word": WORD}


async def test_this_process_lends_nobody_its_own_identity(
    space: Space, services: KeyServices
) -> None:
    await give_keys(space, {})
    asked = services.aws.asked

    await start(space, {"c.yaml": services.for_aws(yaml.safe_load(config_map("c", word=WORD)))})
    await space.refused(saying="there are no credentials for it")

    assert services.aws.asked == asked
