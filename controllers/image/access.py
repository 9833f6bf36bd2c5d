"""The registry of an ImageRepository, with its credentials, for tags and digests."""

from contextlib import AbstractAsyncContextManager
from typing import Final

from controllers.access.registries import Access, Registries
from crds.image import ImageRepository
from toolkit.errors import PenstockError, StalledError
from toolkit.policy import imagereference
from toolkit.policy.imagereference import ImageReference
from toolkit.remote.oci.registry import Registry

_HUB: Final = "index.docker.io"


def reference(obj: ImageRepository) -> ImageReference:
    """Return the reference in ``spec.image``.

    Raises:
        StalledError: the field has no valid image (reason ImageURLInvalid).
    """
    text = obj.spec.image
    try:
        if "://" in text:
            raise StalledError("it must not have a scheme")
        if "@" in text or ":" in text.rpartition("/")[2]:
            raise StalledError("it must not have a tag or a digest")
        return imagereference.parse(text)
    except PenstockError as exc:
        raise StalledError(
            f"failed to parse image: spec.image: {exc}: write it as <host>/<name>",
            reason="ImageURLInvalid",
        ) from exc


def canonical(image: ImageReference) -> str:
    """Return the name of an image with all that is implied, as Flux writes it."""
    host = _HUB if image.registry == imagereference.HUB else image.registry
    return f"{host}/{image.name}"


def opened(
    registries: Registries, obj: ImageRepository, image: ImageReference
) -> AbstractAsyncContextManager[Registry]:
    """Open the registry as the object may see it; its errors are those of ``Registries.open``."""
    spec = obj.spec
    access = Access(
        namespace=obj.metadata.namespace,
        provider=spec.provider,
        secret=spec.secret_ref.name if spec.secret_ref else "",
        service_account=spec.service_account_name,
        cert_secret=spec.cert_secret_ref.name if spec.cert_secret_ref else "",
        proxy_secret=spec.proxy_secret_ref.name if spec.proxy_secret_ref else "",
        insecure=spec.insecure,
    )
    return registries.open(access, image.repository, timeout=spec.timeout_seconds)
