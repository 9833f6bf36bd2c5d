"""Validation of Penstock's kinds beyond their schemas.

The rules of a kind are in its own module, with a row here.
"""

from typing import Any, Final

from webhooks.validation import (
    artifactgenerator,
    bucket,
    gitrepository,
    helmchart,
    helmrelease,
    helmrepository,
    imagepolicy,
    imagerepository,
    imageupdateautomation,
    kustomization,
    notifying,
    ocirepository,
    policies,
    receiver,
)
from webhooks.validation.rule import Checks

CHECKS: Final[tuple[Checks[Any], ...]] = (
    gitrepository.CHECKS,  # in the order of crds.KINDS
    ocirepository.CHECKS,
    bucket.CHECKS,
    helmrepository.CHECKS,
    helmchart.CHECKS,
    artifactgenerator.EXTERNAL,
    artifactgenerator.CHECKS,
    kustomization.CHECKS,
    helmrelease.CHECKS,
    notifying.PROVIDER_CHECKS,
    notifying.ALERT_CHECKS,
    receiver.CHECKS,
    imagerepository.CHECKS,
    imagepolicy.CHECKS,
    imageupdateautomation.CHECKS,
    policies.GRANT,
    policies.SOURCE,
    policies.PROVENANCE,
    policies.IMAGE,
)
