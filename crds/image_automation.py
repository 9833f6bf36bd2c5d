"""``image.toolkit.fluxcd.io/v1``: ImageUpdateAutomation, which writes chosen images into Git.

Fields, patterns, defaults and rules are those of Flux's image-automation-controller.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from crds import image, meta, source, unwritten
from crds.policy_parts import LabelSelector

PULL_REQUEST: Final = "image.penstock.dev/pull-request"
"""Annotation that names the hosting service where a pull request is opened for what is pushed."""


class AutomationSource(meta.ApiStruct, frozen=True, kw_only=True):
    """The GitRepository to read from and to push to."""

    api_version: str = ""
    """API version; has no effect."""
    kind: Annotated[
        Literal["GitRepository"], Meta(extra_json_schema={"default": "GitRepository"})
    ] = "GitRepository"
    """Kind of the source."""
    name: str
    """Name of the GitRepository."""
    namespace: str = ""
    """Namespace of the GitRepository. Defaults to that of the automation."""


class GitCheckout(meta.ApiStruct, frozen=True, kw_only=True):
    """What to check out."""

    ref: source.GitRepositoryRef
    """Reference to check out instead of that of the GitRepository."""


class CommitUser(meta.ApiStruct, frozen=True, kw_only=True):
    """Who commits."""

    name: str = ""
    """Name of the author."""
    email: str
    """Mail address of the author."""


class SigningKey(meta.ApiStruct, frozen=True, kw_only=True):
    """The key to sign commits with."""

    type: Annotated[Literal["gpg", "ssh"], Meta(extra_json_schema=meta.IMPLIED)] = "gpg"
    """Kind of the key."""
    secret_ref: meta.LocalObjectReference
    """Secret with an armoured OpenPGP key as `git.asc` and its `passphrase`, or for `ssh` a private
    key as `identity` and its `password`."""


class CommitSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """How to commit."""

    author: CommitUser
    """Author and committer."""
    signing_key: SigningKey | None = None
    """Key to sign commits with. Defaults to none."""
    message_template: str = ""
    """Template of the message, as Go's text/template with Sprig. Its data are `.AutomationObject`,
    `.Changed` and `.Values`."""
    message_template_values: dict[str, str] = field(default_factory=dict)
    """Values for the template, as `.Values`."""


class PushSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Where to push to."""

    branch: str = ""
    """Branch to push to. Defaults to the one that was checked out; one that is missing is made."""
    refspec: str = ""
    """Refspec to push as well, e.g. `refs/heads/main:refs/for/main`."""
    options: dict[str, str] = field(default_factory=dict)
    """Push options for the server."""


class GitSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """What to check out, and how to commit and push."""

    checkout: GitCheckout | None = None
    """What to check out. Defaults to what the GitRepository takes."""
    commit: CommitSpec
    """How to commit."""
    push: PushSpec | None = None
    """Where to push to. Defaults to the branch that was checked out."""


class UpdateStrategy(meta.ApiStruct, frozen=True, kw_only=True):
    """How to change files."""

    strategy: Annotated[Literal["Setters"], Meta(extra_json_schema={"default": "Setters"})] = (
        "Setters"
    )
    """`Setters` changes values that a comment marks with the name of a policy."""
    path: str = ""
    """Directory of the repository to change files in. Defaults to all of it."""


class ImageUpdateAutomationSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which repository to update, with which policies, and how often."""

    source_ref: AutomationSource
    """GitRepository to update. One in another namespace needs a ReferenceGrant there."""
    git: GitSpec | None = None
    """How to check out, commit and push. Needed to reconcile."""
    interval: meta.Duration
    """How often to look at the repository, e.g. `30m`. New choices of policies are acted upon at
    once."""
    policy_selector: LabelSelector | None = None
    """ImagePolicies of the namespace to update with. Defaults to all."""
    update: Annotated[
        UpdateStrategy, Meta(extra_json_schema={"default": {"strategy": "Setters"}})
    ] = UpdateStrategy()
    """Where and how to change files."""
    suspend: bool = False
    """Stop updating."""

    @property
    def interval_seconds(self) -> float:
        """Return the time between two looks at the repository."""
        return meta.interval_seconds(self.interval)


class ImageUpdateAutomationStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """What was pushed last, and how that went."""

    last_automation_run_time: meta.Timestamp = ""
    """When the repository was looked at last."""
    last_push_commit: str = ""
    """Commit that was pushed last."""
    last_push_time: meta.Timestamp = ""
    """When that was."""
    observed_generation: meta.Count = 0
    """Generation of the spec that this status describes; -1 before the first look."""
    observed_policies: dict[str, image.ImageRef] = field(default_factory=dict)
    """Images of the policies that the last run worked with, by name of the policy."""
    observed_source_revision: str = ""
    """Revision of the repository that the last run saw."""
    conditions: meta.Conditions = field(default_factory=list)
    """Ready, and while they hold Reconciling, Stalled."""
    last_handled_reconcile_at: str = ""
    """Value of the annotation reconcile.fluxcd.io/requestedAt that was acted upon last."""


class ImageUpdateAutomation(Struct, frozen=True, kw_only=True, rename="camel"):
    """Writes the images that policies chose into a Git repository."""

    api_version: str = f"{image.GROUP}/v1"
    kind: str = "ImageUpdateAutomation"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ImageUpdateAutomationSpec = unwritten.spec(ImageUpdateAutomationSpec)
    status: ImageUpdateAutomationStatus = field(
        default_factory=lambda: ImageUpdateAutomationStatus(observed_generation=-1)
    )
