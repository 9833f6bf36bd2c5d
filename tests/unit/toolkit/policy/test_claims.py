"""What is believed of what a write says of itself."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from controllers.helm.deciding import orders
from controllers.kustomize.sources import Mount, Sources
from crds.meta import VERIFIED, Artifact
from toolkit.apply import options
from toolkit.kube import impersonation
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy import claims
from toolkit.policy.claims import Claims, Part, Standing, UntrustedError

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
APPLIER = ObjectRef(
    GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"), "shop", "web"
)
USER = "system:serviceaccount:shop:deployer"
SIGNED = "verified signature of commit 'aaa' with key 'K'"


def artifact(
    revision: str = "main@sha1:aaa", digest: str = "sha256:1", signed: str = ""
) -> Artifact:
    return Artifact(
        digest=digest,
        last_update_time="2026-01-01T00:00:00Z",
        path="p",
        revision=revision,
        url="http://x",
        metadata={VERIFIED: signed} if signed else {},
    )


def part(
    name: str = "app",
    path: str = "",
    kind: str = "GitRepository",
    artifacts: Sequence[Artifact] = (),
) -> Part:
    gvk = replace(GIT, kind=kind)
    return Part(
        path=path,
        source=ObjectRef(gvk, "shop", name),
        artifacts=tuple(artifacts) or (artifact(signed=SIGNED),),
    )


def standing(*parts: Part, remote: bool = False) -> Standing:
    return Standing(
        applier=APPLIER,
        account=ObjectKey("shop", "deployer"),
        remote=remote,
        parts=parts or (part(),),
    )


TRUE = Claims(
    applier=APPLIER,
    source="GitRepository/shop/app",
    revision="main@sha1:aaa",
    digest="sha256:1",
    verified=SIGNED,
)


def extras(**values: str) -> dict[str, tuple[str, ...]]:
    return {
        f"provenance.penstock.dev/{key}": (value,)
        for key, value in {"applier": "Kustomization/shop/web", **values}.items()
    }


def test_what_a_controller_sends_is_read_again() -> None:
    sent = impersonation.provenance(
        applier="Kustomization/shop/web",
        source="GitRepository/shop/app",
        revision="main@sha1:aaa",
        digest="sha256:1",
        verified=SIGNED,
    )

    assert claims.parse({key: (value,) for key, value in sent.items()}) == TRUE


def test_other_extras_are_no_claims() -> None:
    assert claims.parse({"authentication.kubernetes.io/node-name": ("n",)}) is None


@pytest.mark.parametrize(
    "extra",
    [
        {"provenance.penstock.dev/source": ("GitRepository/shop/app",)},
        {"provenance.penstock.dev/applier": ("Kustomization/shop/web", "Kustomization/a/b")},
        {"provenance.penstock.dev/applier": ()},
        extras(revision=""),
        extras(revision="x" * 16385),
        extras(applier="Kustomization/shop"),
        extras(applier="Kustomization/shop/web/more"),
        extras(applier="Kustomization//web"),
        extras(applier="Deployment/shop/web"),
    ],
)
def test_malformed_claims_are_refused(extra: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(UntrustedError, match="claim"):
        claims.parse(extra)


def test_true_claims_are_believed() -> None:
    claims.authenticate(TRUE, user=USER, standing=standing())


def test_an_applier_that_ends_names_itself_only() -> None:
    claims.authenticate(Claims(applier=APPLIER), user=USER, standing=standing())


@pytest.mark.parametrize(
    ("made", "user", "known", "why"),
    [
        (TRUE, USER, None, "Kustomization/shop/web does not exist"),
        (TRUE, USER, standing(remote=True), "applies to another cluster"),
        (TRUE, "mallory", standing(), "acts as 'system:serviceaccount:shop:deployer'"),
        (TRUE, "system:serviceaccount:shop:default", standing(), "not as 'system:serviceaccount"),
        (Claims(applier=APPLIER), "mallory", standing(), "not as 'mallory'"),
        (replace(TRUE, source="GitRepository/infra/app"), USER, standing(), "is not built from"),
        (replace(TRUE, source="Bucket/shop/app"), USER, standing(), "is not built from"),
        (replace(TRUE, revision="main@sha1:bbb"), USER, standing(), "is not what"),
        (replace(TRUE, revision="main@sha1:aaab"), USER, standing(), "is not what"),
        (replace(TRUE, revision="main@sha1:aa"), USER, standing(), "is not what"),
        (replace(TRUE, revision=""), USER, standing(), "is not what"),
        (replace(TRUE, digest="sha256:2"), USER, standing(), "is not what"),
        (replace(TRUE, digest=""), USER, standing(), "is not what"),
        (replace(TRUE, verified="verified by me"), USER, standing(), "is not what"),
        (replace(TRUE, verified=""), USER, standing(), "is not what"),
        (TRUE, USER, standing(part(artifacts=[artifact()])), "is not what"),
        (TRUE, USER, standing(replace(part(), artifacts=())), "is not what"),
    ],
)
def test_false_claims_are_refused(
    made: Claims, user: str, known: Standing | None, why: str
) -> None:
    with pytest.raises(UntrustedError, match=why):
        claims.authenticate(made, user=user, standing=known)


def test_an_artifact_that_was_just_replaced_still_counts() -> None:
    newer = artifact("main@sha1:bbb", "sha256:2", SIGNED)
    known = standing(part(artifacts=[newer, artifact(signed=SIGNED)]))

    claims.authenticate(TRUE, user=USER, standing=known)


def test_revision_and_digest_must_be_of_one_artifact() -> None:
    newer = artifact("main@sha1:bbb", "sha256:2", SIGNED)
    known = standing(part(artifacts=[newer, artifact(signed=SIGNED)]))

    with pytest.raises(UntrustedError):
        claims.authenticate(replace(TRUE, digest="sha256:2"), user=USER, standing=known)


def test_what_third_parties_tell_is_nobody_s_signature() -> None:
    known = standing(part(kind="ExternalArtifact"))
    made = replace(TRUE, source="ExternalArtifact/shop/app")

    with pytest.raises(UntrustedError):
        claims.authenticate(made, user=USER, standing=known)
    claims.authenticate(replace(made, verified=""), user=USER, standing=known)


COMPOSED = "main@sha1:aaa, vendor/lib=v1@sha1:ccc"


def composed(signed: str, *, root: bool = True) -> tuple[Part, ...]:
    top = part(artifacts=[artifact(signed=SIGNED), artifact("main@sha1:old", "sha256:0", SIGNED)])
    library = artifact("v1@sha1:ccc", "sha256:3", signed)
    first = (top,) if root else (replace(top, path="base"),)
    return (*first, part("lib", "vendor/lib", artifacts=[library]))


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("signed", [SIGNED, ""])
def test_a_composed_build_is_told_as_the_controller_tells_it(signed: str, *, root: bool) -> None:
    parts = composed(signed, root=root)
    mounts = Sources(
        mounts=tuple(
            Mount(path=each.path, ref=each.source, artifact=each.artifacts[0]) for each in parts
        )
    )
    made = replace(
        TRUE,
        revision=mounts.revision,
        digest=mounts.digest,
        verified=SIGNED if signed else "",
    )

    claims.authenticate(made, user=USER, standing=standing(*parts))


def test_one_unsigned_part_leaves_a_composed_build_unsigned() -> None:
    made = replace(TRUE, revision=COMPOSED, digest="sha256:1, vendor/lib=sha256:3")

    with pytest.raises(UntrustedError):
        claims.authenticate(made, user=USER, standing=standing(*composed("")))


def test_every_part_of_a_composed_build_is_claimed_by_its_digest() -> None:
    made = replace(TRUE, revision=COMPOSED)

    for digest in ("sha256:1", "sha256:1, vendor/lib=sha256:4", "sha256:0, vendor/lib=sha256:3"):
        with pytest.raises(UntrustedError):
            claims.authenticate(
                replace(made, digest=digest), user=USER, standing=standing(*composed(SIGNED))
            )


def test_a_composed_build_must_name_every_part() -> None:
    with pytest.raises(UntrustedError):
        claims.authenticate(TRUE, user=USER, standing=standing(*composed(SIGNED)))


def test_a_single_mounted_source_is_told_without_its_path() -> None:
    known = standing(part(path="vendor/app"))

    claims.authenticate(TRUE, user=USER, standing=known)


def test_control_characters_arrive_escaped_and_match() -> None:
    odd = "feature\nx@sha1:aaa"
    made = replace(TRUE, revision=impersonation.escaped(odd))

    claims.authenticate(
        made, user=USER, standing=standing(part(artifacts=[artifact(odd, signed=SIGNED)]))
    )


@pytest.mark.parametrize(
    ("name", "default", "expected"),
    [
        ("own", "fallback", ObjectKey("shop", "own")),
        ("", "fallback", ObjectKey("shop", "fallback")),
        ("", "", ObjectKey("flux-system", "kustomize-applier")),
    ],
)
def test_the_account_is_the_named_one_else_the_default(
    name: str, default: str, expected: ObjectKey
) -> None:
    installed = ObjectKey("flux-system", "kustomize-applier")

    assert claims.account("shop", name, default=default, installed=installed) == expected


def test_the_managers_are_those_that_apply() -> None:
    assert claims.MANAGERS == {"Kustomization": options.MANAGER, "HelmRelease": orders.MANAGER}
    assert claims.MANAGERS.keys() == claims.APPLIERS.keys()
