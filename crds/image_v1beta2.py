"""``image.toolkit.fluxcd.io/v1beta2``: the image kinds as Flux served them up to 2.8.

Early releases told images in the status of an ImagePolicy as a text, ``<name>:<tag>``.
"""

from msgspec import Struct, field

from crds import image, image_automation, meta


class ImageRepository(Struct, frozen=True, kw_only=True, rename="camel"):
    """The tags of an image in a registry."""

    api_version: str = f"{image.GROUP}/v1beta2"
    kind: str = "ImageRepository"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: image.ImageRepositorySpec
    status: image.ImageRepositoryStatus = field(
        default_factory=lambda: image.ImageRepositoryStatus(observed_generation=-1)
    )


class ImagePolicyStatus(image.ImagePolicyStatus, frozen=True, kw_only=True):
    """What was chosen, and how that went."""

    latest_image: str = ""
    """Deprecated: image that was chosen, as `<name>:<tag>`."""
    observed_previous_image: str = ""
    """Deprecated: image that was chosen before, as `<name>:<tag>`."""


class ImagePolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """The choice of one tag of an image."""

    api_version: str = f"{image.GROUP}/v1beta2"
    kind: str = "ImagePolicy"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: image.ImagePolicySpec
    status: ImagePolicyStatus = field(
        default_factory=lambda: ImagePolicyStatus(observed_generation=-1)
    )


class ImageUpdateAutomation(Struct, frozen=True, kw_only=True, rename="camel"):
    """Writes the images that policies chose into a Git repository."""

    api_version: str = f"{image.GROUP}/v1beta2"
    kind: str = "ImageUpdateAutomation"
    metadata: meta.ObjectMeta = meta.ObjectMeta()
    spec: image_automation.ImageUpdateAutomationSpec
    status: image_automation.ImageUpdateAutomationStatus = field(
        default_factory=lambda: image_automation.ImageUpdateAutomationStatus(observed_generation=-1)
    )
