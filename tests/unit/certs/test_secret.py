"""What replicas share survives the Secret, and damage is noticed."""

import base64
import datetime as dt

import pytest

from certs import authority, rotation, secret
from certs.authority import CertificateError
from certs.rotation import Situation, State, Terms
from toolkit.objects import Json, ObjectKey

KEY = ObjectKey("penstock-system", "webhook-certificates")
NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


def state(*, rotating: bool = False) -> State:
    situation = Situation(now=NOW, hosts=("webhook",))
    made = rotation.step(None, situation, Terms(), name="test")
    if rotating:
        asked = Situation(now=NOW, hosts=("webhook",), asked="1")
        made = rotation.step(made, asked, Terms(), name="test")
    assert made is not None
    return made


@pytest.mark.parametrize("rotating", [False, True])
def test_what_is_written_is_read_back(*, rotating: bool) -> None:
    wanted = state(rotating=rotating)

    assert secret.decode(secret.encode(wanted, KEY, None)) == wanted


def test_what_others_noted_stays_when_it_is_written_again() -> None:
    before = secret.encode(state(), KEY, None)
    before["metadata"] |= {"resourceVersion": "7", "labels": {"team": "a"}}
    before["metadata"]["annotations"] = {secret.ROTATE: "now"}

    written = secret.encode(state(), KEY, before)

    assert written["metadata"]["resourceVersion"] == "7"
    assert written["metadata"]["labels"]["team"] == "a"
    assert secret.asked(written) == "now"


@pytest.mark.parametrize("damage", [{}, {"ca.key": None}, {"tls.crt": "eA=="}, {"ca.crt": "%"}])
def test_damage_is_an_error_that_shows_no_key(damage: Json) -> None:
    stored = secret.encode(state(), KEY, None)
    stored["data"] = stored["data"] | damage if damage else {}

    with pytest.raises(CertificateError) as caught:
        secret.decode(stored)

    assert "PRIVATE" not in str(caught.value)


def test_only_what_cert_manager_wrote_is_taken_for_its_own() -> None:
    made = state()
    theirs: Json = {
        "metadata": {"annotations": {"cert-manager.io/certificate-name": "webhook"}},
        "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": base64.b64encode(made.leaf.certificate).decode(),
            "tls.key": base64.b64encode(made.leaf.key).decode(),
            "ca.crt": base64.b64encode(made.authority.certificate).decode(),
        },
    }

    assert secret.is_foreign(theirs)
    assert not secret.is_foreign({**theirs, "metadata": {}})
    assert not secret.is_foreign({**theirs, "type": "Opaque"})
    pair, bundle = secret.foreign(theirs)
    assert pair == made.leaf
    assert authority.vouches(bundle, pair.certificate)


def test_keys_do_not_show_in_logs() -> None:
    assert "PRIVATE" not in repr(state(rotating=True))
