"""Which objects values come from, in which versions, and what of them no message may show."""

from typing import Any

import pytest

from controllers.helm import inputs
from tests.fakes.releases import release
from toolkit.errors import TransientError
from toolkit.kube.errors import NotFoundError
from toolkit.kube.secrets import Data
from toolkit.objects import GroupVersionKind
from toolkit.release.values import ValuesError

SECRET = {"kind": "Secret", "name": "s"}
CONFIG = {"kind": "ConfigMap", "name": "c"}


class Given:
    """Objects by kind and name; others do not exist, or cannot be read."""

    def __init__(self, **content: str) -> None:
        self.content = content
        self.forbidden = False
        self.read: list[str] = []

    async def data(self, gvk: GroupVersionKind, namespace: str, name: str, *, reason: str) -> Data:
        assert namespace == "team"
        self.read.append(f"{gvk.kind}/{name}")
        if self.forbidden:
            raise TransientError("forbidden", reason=reason)
        if name not in self.content:
            missing = TransientError("missing", reason=reason)
            raise missing from NotFoundError("missing")
        values = {"values.yaml": self.content[name].encode()}
        return Data(values=values, version=f"{gvk.kind}/{name}@7")


async def gathered(given: Given, *references: Any) -> inputs.Inputs:
    secrets: Any = given
    return await inputs.gather(release(spec={"valuesFrom": list(references)}), secrets)


async def test_without_references_nothing_is_read() -> None:
    given = Given()

    assert (await gathered(given)).versions == ()
    assert given.read == []


async def test_each_object_is_read_once_and_its_version_kept() -> None:
    given = Given(s="a: 1", c="b: 2")

    found = await gathered(given, SECRET, CONFIG, {**SECRET, "valuesKey": "other"})

    assert given.read == ["Secret/s", "ConfigMap/c"]
    assert found.versions == ("Secret/s@7", "ConfigMap/c@7")


async def test_missing_object_has_a_version_of_its_own() -> None:
    found = await gathered(Given(), {**CONFIG, "optional": True})

    assert found.versions == ("ConfigMap/c@missing",)


async def test_object_that_cannot_be_read_is_no_missing_one() -> None:
    given = Given(c="a: 1")
    given.forbidden = True

    with pytest.raises(TransientError) as caught:
        await gathered(given, {**CONFIG, "optional": True})
    assert caught.value.reason == "ValuesError"


async def test_missing_object_that_is_not_optional_is_an_error() -> None:
    obj = release(spec={"valuesFrom": [CONFIG]})

    with pytest.raises(ValuesError, match=r"ConfigMap chart values reference 'team/c'"):
        await inputs.compose(obj, await gathered(Given(), CONFIG))


async def test_values_are_composed_with_their_digest() -> None:
    obj = release(spec={"valuesFrom": [CONFIG], "values": {"b": {"c": 2}}})

    found = await inputs.compose(obj, await gathered(Given(c="b: {c: 1, d: yes}"), CONFIG))

    assert found.values == {"b": {"c": 2, "d": True}}
    assert found.digest.startswith("sha256:")
    assert found.secrets == ()


async def test_no_more_is_read_than_a_release_may_have() -> None:
    given = Given(c="a" * (1 << 20))

    await gathered(given, *[CONFIG] * 8)
    with pytest.raises(ValuesError, match="more than 8388608 bytes"):
        await gathered(given, *[CONFIG] * 9)
    with pytest.raises(ValuesError, match="257 references, more than 256"):
        await gathered(Given(c="a: 1"), *[CONFIG] * 257)
    assert given.read == ["ConfigMap/c"] * 2


async def test_keys_that_nobody_names_are_not_kept() -> None:
    found = await gathered(Given(s="a: 1"), {**SECRET, "valuesKey": "other"})

    assert found.fetched == {("Secret", "s"): {}}


async def test_content_of_secrets_is_secret_whole_and_leaf_by_leaf() -> None:
    obj = release(spec={"valuesFrom": [SECRET]})

    found = await inputs.compose(obj, await gathered(Given(s="a: {b: [hush, 1]}\n"), SECRET))

    assert set(found.secrets) == {"a: {b: [hush, 1]}", "hush", "1"}
    assert "hush" not in repr(found)


def test_objects_to_watch_are_values_keys_and_the_kubeconfig() -> None:
    spec = {
        "valuesFrom": [SECRET, CONFIG],
        "decryption": {"provider": "sops", "secretRef": {"name": "d"}},
        "kubeConfig": {"secretRef": {"name": "k"}},
    }

    found = [f"{ref}" for ref in inputs.references(release(spec=spec))]

    assert found == ["Secret/team/s", "ConfigMap/team/c", "Secret/team/d", "Secret/team/k"]
