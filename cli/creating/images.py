"""The flags for kinds of images: ``flux create image repository|policy|update``."""

from typing import Final

import click

from cli import age, errors
from cli.creating import flags
from cli.creating.flags import Flag, Values
from cli.creating.objects import Row
from crds import IMAGE_POLICY, IMAGE_REPOSITORY, IMAGE_UPDATE_AUTOMATION
from toolkit.objects import Json

_ORDERS: Final = click.Choice(("asc", "desc"))
_CHOICES: Final = {
    "select_semver": "semver.range",
    "select_alpha": "alphabetical.order",
    "select_numeric": "numerical.order",
}


def _policy(values: Values, spec: Json) -> None:
    chosen = [key for key in _CHOICES if values.get(key)]
    if len(chosen) != 1:
        raise errors.UsageError(
            "say how to choose with one of --select-semver, --select-alpha, --select-numeric"
        )
    flags.put(spec, f"policy.{_CHOICES[chosen[0]]}", values[chosen[0]])
    if values.get("filter_extract") and not values.get("filter_regex"):
        raise errors.UsageError("--filter-extract needs --filter-regex")
    reflects = values.get("reflect_digest") == "Always"
    if reflects != bool(values.get("interval")):
        raise errors.UsageError("--interval and --reflect-digest=Always are needed together")


def _reference(text: str) -> Json:
    namespace, _, name = text.rpartition("/")
    return {"name": name, **({"namespace": namespace} if namespace else {})}


def _update(values: Values, spec: Json) -> None:
    spec["sourceRef"] = {"kind": "GitRepository", "name": values["git_repo_ref"]}
    if values.get("git_repo_namespace"):
        spec["sourceRef"]["namespace"] = values["git_repo_namespace"]
    if values.get("signing_key_type") and not values.get("signing_key_secret"):
        raise errors.UsageError("--signing-key-type needs --signing-key-secret")
    spec["update"] = {"strategy": "Setters", **spec.get("update", {})}


REPOSITORY: Final = Row(
    kind=IMAGE_REPOSITORY,
    example="""penstock create image repository podinfo \\
  --image=ghcr.io/stefanprodan/podinfo --interval=5m --export""",
    flags=(
        Flag(name="image", at="image", required=True, help="Name of the image, without tag."),
        flags.INTERVAL,
        flags.secret_ref("Existing Secret with credentials."),
        flags.secret_ref(
            "Secret with TLS certificates.",
            name="cert-secret-ref",
            at="certSecretRef",
            also=("cert-ref",),
        ),
        Flag(name="insecure", at="insecure", type=bool, help="Allow a registry without TLS."),
        Flag(
            name="scan-timeout",
            at="timeout",
            type=age.DURATION,
            shape=flags.duration,
            help="How long one scan may take.",
        ),
    ),
)
POLICY: Final = Row(
    kind=IMAGE_POLICY,
    example="""penstock create image policy podinfo --image-ref=podinfo \\
  --select-semver='>=1.0.0' --export""",
    flags=(
        Flag(
            name="image-ref",
            at="imageRepositoryRef",
            required=True,
            shape=_reference,
            help="[NAMESPACE/]NAME of the ImageRepository.",
        ),
        Flag(name="select-semver", help="Range of versions; the highest is taken."),
        Flag(name="select-alpha", type=_ORDERS, help="Take the last or first in text order."),
        Flag(name="select-numeric", type=_ORDERS, help="Take the highest or lowest number."),
        Flag(name="filter-regex", at="filterTags.pattern", help="Pattern that tags must match."),
        Flag(
            name="filter-extract",
            at="filterTags.extract",
            help="Group of the pattern that is compared, such as $ts.",
        ),
        Flag(
            name="reflect-digest",
            at="digestReflectionPolicy",
            type=click.Choice(("Always", "IfNotPresent", "Never")),
            help="When the status contains the digest of the image.",
        ),
        Flag(
            name="interval",
            at="interval",
            type=age.DURATION,
            shape=flags.duration,
            help="How often to look up the digest, with --reflect-digest=Always.",
        ),
    ),
    finish=_policy,
)
UPDATE: Final = Row(
    kind=IMAGE_UPDATE_AUTOMATION,
    example="""penstock create image update flux-system --git-repo-ref=flux-system \\
  --checkout-branch=main --author-name=penstock --author-email=bot@example.com --export""",
    flags=(
        flags.INTERVAL,
        Flag(name="git-repo-ref", required=True, help="GitRepository to read from and push to."),
        Flag(name="git-repo-namespace", help="Namespace of the GitRepository."),
        Flag(
            name="git-repo-path",
            at="update.path",
            help="Directory of the repository in which files are changed.",
        ),
        Flag(name="checkout-branch", at="git.checkout.ref.branch", help="Branch to check out."),
        Flag(
            name="push-branch",
            at="git.push.branch",
            help="Branch to push to; default is the branch that is checked out.",
        ),
        Flag(
            name="commit-template",
            at="git.commit.messageTemplate",
            help="Template of the message of commits.",
        ),
        Flag(
            name="author-name",
            at="git.commit.author.name",
            required=True,
            help="Name of the author of commits.",
        ),
        Flag(
            name="author-email",
            at="git.commit.author.email",
            required=True,
            help="Email address of the author of commits.",
        ),
        flags.secret_ref(
            "Secret with the key that signs commits.",
            name="signing-key-secret",
            at="git.commit.signingKey.secretRef",
        ),
        Flag(
            name="signing-key-type",
            at="git.commit.signingKey.type",
            type=click.Choice(("gpg", "ssh")),
            help="Type of the signing key; default is gpg.",
        ),
    ),
    finish=_update,
)
