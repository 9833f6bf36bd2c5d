"""No message holds a Secret's value."""

import base64
import time

import pytest

from toolkit.apply import masking
from toolkit.kube import errors
from toolkit.kube.errors import Cause
from toolkit.objects import Json

PASSWORD = "correct horse battery"
ENCODED = base64.b64encode(PASSWORD.encode()).decode()


def _secret(**data: str) -> Json:
    metadata = {"name": "db", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidError(
            f'Secret "db" is invalid: type: Invalid value: "{PASSWORD}": field is immutable',
            status=422,
            api_reason="Invalid",
            causes=(
                Cause(
                    reason="FieldValueInvalid",
                    message=f'Invalid value: "{PASSWORD}": field is immutable',
                    field="type",
                ),
            ),
        ),
        errors.ApiError(f"error decoding from json: {ENCODED}", status=500),
        errors.ApiError(f"error decoding from json: {PASSWORD[:8]}", status=400),
        errors.ForbiddenError(f'webhook denied: "{PASSWORD}" is weak', api_reason="Forbidden"),
        errors.ForbiddenError(f"webhook denied: {ENCODED}", status=403),
    ],
)
def test_the_value_is_never_told(error: errors.ApiError) -> None:
    text = str(masking.failure(_secret(password=ENCODED), error))

    assert PASSWORD[:8] not in text
    assert ENCODED not in text
    assert text.startswith("Secret/shop/db dry-run failed")


def test_a_value_that_is_broken_into_lines_is_not_told_either() -> None:
    broken = "\n".join((ENCODED[:8], ENCODED[8:]))
    error = errors.ForbiddenError(f'webhook denied: "{PASSWORD}" is weak', status=403)

    assert PASSWORD not in str(masking.failure(_secret(password=broken), error))


def test_what_is_wrong_is_told_all_the_same() -> None:
    cause = Cause(reason="FieldValueInvalid", message='"x": field is immutable', field="type")
    error = errors.InvalidError("x", status=422, api_reason="Invalid", causes=(cause,))

    text = str(masking.failure(_secret(), error))

    assert (
        text
        == "Secret/shop/db dry-run failed (Invalid): type: FieldValueInvalid: field is immutable"
    )


def test_short_values_hide_whole_words_only() -> None:
    error = errors.ForbiddenError('secrets is forbidden: User "a" e', status=403)

    text = str(masking.failure(_secret(key="e"), error))

    assert text.endswith('secrets is forbidden: User "a" ***')


def test_other_kinds_are_told_in_full() -> None:
    error = errors.ApiError("anything", status=500)
    config = {**_secret(), "kind": "ConfigMap"}

    assert str(masking.failure(config, error)).endswith("failed: anything")


def test_a_pair_shows_which_values_differ_and_none_of_them() -> None:
    before, after = masking.mask_pair(_secret(a="1", b="2"), _secret(a="1", b="3", c="4"))

    assert before["data"] == {"a": "***", "b": "*** (before)"}
    assert after["data"] == {"a": "***", "b": "*** (after)", "c": "*** (after)"}


def test_kubectls_copy_of_a_secret_is_masked() -> None:
    noted = _secret()
    noted["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": PASSWORD,
        "note": "x",
    }

    before, _ = masking.mask_pair(noted, _secret())

    assert PASSWORD not in str(before)
    assert before["metadata"]["annotations"]["note"] == "x"


def test_many_values_cost_little() -> None:
    lines = "\n".join(f"{number:06x}" for number in range(140_000))
    error = errors.ForbiddenError('secrets "db" is forbidden: "00beef" is weak', status=403)
    secret = _secret(lines=base64.b64encode(lines.encode()).decode())
    began = time.process_time()

    text = str(masking.failure(secret, error))

    assert time.process_time() - began < 2
    assert text.endswith('secrets "db" is forbidden: "***" is weak')


def test_message_about_a_secret_that_no_server_stores_is_withheld() -> None:
    error = errors.ForbiddenError('secrets "db" is forbidden', status=403)

    text = str(masking.failure(_secret(large="A" * (4 << 20)), error))

    assert "its message is withheld" in text
