"""``image.toolkit.fluxcd.io/v1beta1``: the image kinds as Flux served them up to 2.6.

Fields without a text below them mean what they mean in ``crds.image`` and
``crds.image_automation``.
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from crds import image, image_automation, meta
from crds import source_parts as parts


class ImageRepositorySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which tags to list, how often, and with which credentials."""

    image: str
    interval: meta.Duration
    timeout: meta.ShortDuration = ""
    secret_ref: meta.LocalObjectReference | None = None
    service_account_name: Annotated[str, Meta(max_length=253)] = ""
    cert_secret_ref: meta.LocalObjectReference | None = None
    suspend: bool = False
    access_from: parts.AccessFrom | None = None
    exclusion_list: Annotated[list[str], Meta(max_length=25)] = field(default_factory=list)


class ImageRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """The tags of an image in a registry."""

    api_version: str = f"{image.GROUP}/v1beta1"
    kind: str = "ImageRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ImageRepositorySpec
    status: image.ImageRepositoryStatus = field(
        default_factory=lambda: image.ImageRepositoryStatus(observed_generation=-1)
    )


class ImagePolicySpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Among which tags to choose, and how."""

    image_repository_ref: meta.NamespacedObjectReference
    policy: image.ImagePolicyChoice
    filter_tags: image.TagFilter | None = None


class ImagePolicyStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """What was chosen, and how that went."""

    latest_image: str = ""
    """Deprecated: image that was chosen, as `<name>:<tag>`."""
    observed_previous_image: str = ""
    """Deprecated: image that was chosen before, as `<name>:<tag>`."""
    observed_generation: meta.Count = 0
    conditions: meta.Conditions = field(default_factory=list)


class ImagePolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """The choice of one tag of an image."""

    api_version: str = f"{image.GROUP}/v1beta1"
    kind: str = "ImagePolicy"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ImagePolicySpec
    status: ImagePolicyStatus = field(
        default_factory=lambda: ImagePolicyStatus(observed_generation=-1)
    )


class ImageUpdateAutomationSpec(meta.ApiStruct, frozen=True, kw_only=True):
    """Which repository to update, and how often."""

    source_ref: image_automation.AutomationSource
    git: image_automation.GitSpec | None = None
    interval: meta.Duration
    """How often to look at the repository, e.g. `30m`."""
    update: Annotated[
        image_automation.UpdateStrategy,
        Meta(extra_json_schema={"default": {"strategy": "Setters"}}),
    ] = image_automation.UpdateStrategy()
    suspend: bool = False
    """Stop updating."""


class ImageUpdateAutomation(Struct, frozen=True, kw_only=True, rename="camel"):
    """Writes the images that policies chose into a Git repository."""

    api_version: str = f"{image.GROUP}/v1beta1"
    kind: str = "ImageUpdateAutomation"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: ImageUpdateAutomationSpec
    status: image_automation.ImageUpdateAutomationStatus = field(
        default_factory=lambda: image_automation.ImageUpdateAutomationStatus(observed_generation=-1)
    )
