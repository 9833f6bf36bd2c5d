"""AWS KMS: which host is asked, as whom, with what, and what its refusals mean."""

from typing import Any

import pytest

from tests.fakes import kmsaws
from tests.fakes.keyscene import ISSUER, WORD, Scene
from toolkit.decrypt.errors import UnreachableError

CLEAR = f"word: {WORD}\n".encode()
HOST = "kms.eu-west-1.amazonaws.com"
ROLE = "arn:aws:iam::111122223333:role/sops"
TEAM = "arn:aws:iam::111122223333:role/team"
PREFIX = "arn:aws:kms:eu-west-1:111122223333"


async def test_the_region_of_the_arn_is_asked_with_a_signature(scene: Scene) -> None:
    assert await scene.read(scene.document(kms=[scene.kms()]), scene.aws_secret) == CLEAR

    assert scene.clouds.dialled == [f"{HOST}:443"]


async def test_an_alias_is_a_key_too(scene: Scene) -> None:
    document = scene.document(kms=[scene.kms(arn=kmsaws.ALIAS)])

    assert await scene.read(document, scene.aws_secret) == CLEAR


async def test_the_encryption_context_is_passed_on(scene: Scene) -> None:
    good = scene.document(kms=[scene.kms(context={"app": "db", "env": "prod"})])
    altered = good.replace(b"env: prod", b"env: test")

    assert await scene.read(good, scene.aws_secret) == CLEAR
    error = await scene.refused(altered, scene.aws_secret)

    assert "cannot decrypt the data key (HTTP 400 InvalidCiphertextException)" in str(error)


async def test_the_role_of_the_document_is_assumed_with_the_same_credentials(
    scene: Scene,
) -> None:
    scene.aws.allowed, scene.aws.trust = {ROLE}, {ROLE: {kmsaws.USER}}

    clear = await scene.read(scene.document(kms=[scene.kms(role=ROLE)]), scene.aws_secret)

    assert clear == CLEAR
    assert scene.clouds.dialled == ["sts.eu-west-1.amazonaws.com:443", f"{HOST}:443"]


async def test_a_role_that_does_not_trust_them_is_refused_by_name(scene: Scene) -> None:
    error = await scene.refused(scene.document(kms=[scene.kms(role=ROLE)]), scene.aws_secret)

    assert f"role '{ROLE}' for AWS KMS key '{kmsaws.ARN}' refuses entry 'sops.aws-kms'" in str(
        error
    )
    assert "allow it sts:AssumeRole" in str(error)
    assert scene.aws.asked == 0


async def test_an_account_signs_in_as_the_role_in_its_annotation(scene: Scene) -> None:
    scene.clouds.aws.roles[TEAM] = (ISSUER.url, "system:serviceaccount:team:app")
    scene.aws.allowed = {TEAM}
    account = ISSUER.identity(annotations={"eks.amazonaws.com/role-arn": TEAM})

    assert await scene.read(scene.document(kms=[scene.kms()]), account=account) == CLEAR


async def test_the_secret_is_used_instead_of_the_account(scene: Scene) -> None:
    account = ISSUER.identity(annotations={"eks.amazonaws.com/role-arn": TEAM})

    document = scene.document(kms=[scene.kms()])

    assert await scene.read(document, scene.aws_secret, account=account) == CLEAR
    assert scene.clouds.asked("sts.eu-west-1.amazonaws.com") == 0


async def test_this_process_signs_in_as_itself_only_if_it_is_allowed_to(scene: Scene) -> None:
    user = scene.aws.user()
    own = scene.process(
        AWS_ACCESS_KEY_ID=user["aws_access_key_id"],
        AWS_SECRET_ACCESS_KEY=user["aws_secret_access_key"],
    )
    document = scene.document(kms=[scene.kms()])

    error = await scene.refused(document, cloud=own)
    clear = await scene.read(document, own=True, cloud=own)

    assert "there are no credentials for it" in str(error)
    assert clear == CLEAR
    assert scene.aws.asked == 1


async def test_an_account_that_cannot_sign_in_never_becomes_this_process(scene: Scene) -> None:
    user = scene.aws.user()
    own = scene.process(
        AWS_ACCESS_KEY_ID=user["aws_access_key_id"],
        AWS_SECRET_ACCESS_KEY=user["aws_secret_access_key"],
    )

    error = await scene.refused(
        scene.document(kms=[scene.kms()]), account=ISSUER.identity(), own=True, cloud=own
    )

    assert "has no annotation 'eks.amazonaws.com/role-arn'" in str(error)
    assert not isinstance(error, UnreachableError)
    assert scene.aws.asked == 0


async def test_a_token_service_that_is_down_passes_and_one_that_refuses_does_not(
    scene: Scene,
) -> None:
    account = ISSUER.identity(annotations={"eks.amazonaws.com/role-arn": TEAM})
    document = scene.document(kms=[scene.kms()])

    refused = await scene.refused(document, account=account)
    scene.clouds.down.add("sts.eu-west-1.amazonaws.com")
    down = await scene.refused(document, account=account, cloud=scene.process())

    assert not isinstance(refused, UnreachableError)
    assert "see its trust policy" in str(refused)
    assert isinstance(down, UnreachableError)


@pytest.mark.parametrize(
    "arn",
    [
        "",
        "arn:aws:kms:eu-west-1.attacker.example#:111122223333:key/x",
        "arn:aws:kms:attacker.example/?:111122223333:key/x",
        "arn:aws:kms:nowhere:111122223333:key/x",
        f"{PREFIX}:key/x\nHost: y",
        f"{PREFIX}:key/",
        "arn:aws:kms:eu-west-1:1:key/x",
        "arn:aws:s3:eu-west-1:111122223333:key/x",
        "alias/sops",
        "https://attacker.example/",
    ],
)
async def test_what_is_no_arn_of_a_key_is_asked_of_nobody(scene: Scene, arn: str) -> None:
    await scene.refused(scene.document(kms=[scene.kms() | {"arn": arn}]), scene.aws_secret)

    assert scene.clouds.dialled == []


@pytest.mark.parametrize(
    "changes",
    [
        {"role": "https://attacker.example"},
        {"role": f"{ROLE}&Action=GetSessionToken"},
        {"enc": "not base64!"},
        {"context": {"a": ["b"]}},
        {"context": {str(n): "x" for n in range(100)}},
    ],
)
async def test_what_is_malformed_is_asked_of_nobody(scene: Scene, changes: dict[str, Any]) -> None:
    recipient = {**scene.kms(), **changes}

    await scene.refused(scene.document(kms=[recipient]), scene.aws_secret)

    assert scene.clouds.dialled == []


async def test_a_key_of_another_region_is_asked_there(scene: Scene) -> None:
    arn = kmsaws.ARN.replace("eu-west-1", "us-east-1")
    scene.aws.keys[arn] = bytes(32)

    clear = await scene.read(scene.document(kms=[scene.kms(arn=arn)]), scene.aws_secret)

    assert clear == CLEAR
    assert scene.clouds.dialled == ["kms.us-east-1.amazonaws.com:443"]


async def test_an_answer_about_another_key_does_not_count(scene: Scene) -> None:
    scene.aws.lies = f"{PREFIX}:key/another"

    error = await scene.refused(scene.document(kms=[scene.kms()]), scene.aws_secret)

    assert "another key responded" in str(error)


async def test_a_missing_right_is_told_with_what_to_allow(scene: Scene) -> None:
    scene.aws.allowed.clear()

    error = await scene.refused(scene.document(kms=[scene.kms()]), scene.aws_secret)

    assert not isinstance(error, UnreachableError)
    assert str(error) == (
        f"AWS KMS key '{kmsaws.ARN}' refuses entry 'sops.aws-kms' of the Secret"
        " (HTTP 400 AccessDeniedException): allow it kms:Decrypt on the key"
    )


async def test_a_key_that_is_not_there_is_told_apart(scene: Scene) -> None:
    document = scene.document(kms=[scene.kms()])
    scene.aws.keys.clear()

    error = await scene.refused(document, scene.aws_secret)

    assert "does not exist (HTTP 400 NotFoundException)" in str(error)


@pytest.mark.parametrize(
    "fault", [(400, "ThrottlingException"), (500, "KMSInternalException"), (503, "")]
)
async def test_overload_and_faults_of_theirs_pass(scene: Scene, fault: tuple[int, str]) -> None:
    scene.aws.fault = fault

    error = await scene.refused(scene.document(kms=[scene.kms()]), scene.aws_secret)

    assert isinstance(error, UnreachableError)
    assert f"cannot be contacted now: HTTP {fault[0]}" in str(error)


async def test_wrong_keys_in_the_secret_are_told(scene: Scene) -> None:
    given = b"aws_access_key_id: AKIAXXXX\naws_secret_access_key: wrong\n"

    error = await scene.refused(scene.document(kms=[scene.kms()]), {"sops.aws-kms": given})

    assert "UnrecognizedClientException" in str(error)
