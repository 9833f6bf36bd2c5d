"""Encrypted Secrets of a chart are opened at admission; Helm's record keeps them closed."""

import base64
import gzip
import secrets

import pytest

from tests.e2e.conftest import SECRET, Space, condition, owned
from tests.e2e.decryption import SOPS, armed, assert_unseen, give_keys, secret, values_of
from tests.e2e.helmreleases import HELM_RELEASE, at, records, release, shop
from tests.e2e.helmsources import repository
from tests.e2e.plans import diff
from tests.e2e.window import Window
from tests.fakes.chartrepository import ChartRepository
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import envelope
from toolkit.objects import Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

VALUE = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}-value
stringData:
  db.yaml: {{ .Values.db | quote }}
"""
WHOLE = '{{ .Files.Get "files/whole.yaml" }}'


def encrypting(sops: Reference, word: str) -> dict[str, str]:
    """Return a chart with an encrypted manifest, and a Secret of a value."""
    return shop(
        "1.0.0",
        templates__value_yaml=VALUE,
        templates__whole_yaml=WHOLE,
        files__whole_yaml=sops.manifest(secret("whole", word=word)).decode(),
    )


async def versions(space: Space) -> list[str]:
    """Return the resourceVersions of the Secrets of the chart."""
    found = [await space.get(SECRET, name) for name in ("app-value", "whole")]
    return [str(dig(each, "metadata", "resourceVersion")) for each in found]


async def assert_encrypted_in_records(space: Space, word: str) -> None:
    """Look into Helm's records of the release."""
    for name in await records(space):
        data = (await space.get(SECRET, name))["data"]["release"]
        record = gzip.decompress(base64.b64decode(base64.b64decode(data))).decode()
        assert envelope.CARRIER in record
        for form in (word, base64.b64encode(word.encode()[: len(word) // 3 * 3]).decode()):
            assert form not in record


async def test_secrets_of_a_chart_are_opened_at_admission_and_are_no_drift(space: Space) -> None:
    sops, word = Reference(), f"word-{secrets.token_hex(8)}"
    given: Json = {
        "decryption": SOPS,
        "driftDetection": {"mode": "enabled"},
        "values": {"db": sops.yaml({"user": word}).decode()},
    }
    await armed(space)
    await give_keys(space, sops.secret)
    async with ChartRepository() as server:
        server.add("shop", "1.0.0", files=encrypting(sops, word))
        await space.world.apply(repository(space, server.url), release(space, **given))
        await at(space, "1.0.0")
        first = await versions(space)
        # another generation has everything compared anew
        await space.world.apply(release(space, **given, interval="2h"))
        await space.request(HELM_RELEASE)
        compared = await at(space, "1.0.0")

        assert await values_of(space, "app-value") == {"db.yaml": f"user: {word}\n"}
        assert await values_of(space, "whole") == {"word": word}
        assert owned(await space.get(SECRET, "whole"), "helm-controller") == [
            f"f:{envelope.CARRIER}"
        ]
        assert condition(compared, "Drifted")["reason"] == "NoDriftDetected"
        assert await versions(space) == first
        assert await records(space) == ["sh.helm.release.v1.app.v1"]
        await assert_encrypted_in_records(space, word)
        await assert_unseen(space, word)

        taken = {"data": {"word": "b3RoZXI="}, "metadata": {"labels": {envelope.LABEL: None}}}
        where = (SECRET, "whole", space.namespace)
        await space.world.api.patch(*where, taken, strategy="merge", manager="somebody")
        await space.world.until(SECRET, space.namespace, "whole", envelope.opted_in)

        assert await values_of(space, "whole") == {"word": word}
        assert await records(space) == ["sh.helm.release.v1.app.v1"]

        await Window(space).until(lambda _: True, name="helmrelease:app")
        same = await diff(space, "helmrelease", "app")
        given["values"] = {"db": sops.yaml({"user": f"other-{word}"}).decode()}
        await space.world.apply(release(space, **given, suspend=True))
        differs = await diff(space, "helmrelease", "app")

        assert (same.code, same.out) == (0, "")
        assert differs.code == 1
        assert "app-value" in differs.out
        assert word not in str(differs)
