"""The plugins, in the order in which the API server asks the mutating ones."""

from typing import Final

from webhooks import (
    authorship,
    ciphertextguard,
    decryption,
    imagepinning,
    imageverification,
    protection,
    provenance,
    references,
    sourcepolicy,
    tenancy,
)
from webhooks.hints import admission as hints
from webhooks.plugin import Row
from webhooks.validation import admission as validation

PLUGINS: Final[tuple[Row, ...]] = (
    # Specs that can never work are refused for all users.
    validation.ROW,
    # Probable mistakes only cause warnings.
    hints.ROW,
    # References to other namespaces need a grant there.
    references.ROW,
    # Users need the permissions on accounts, kubeconfigs and keys that their objects use.
    tenancy.TENANCY,
    # Who writes an automation is recorded, because its credentials may change later.
    authorship.ROW,
    # Labels of namespaces that policies use are changed only by users who may.
    tenancy.LABELS,
    # Sources are those that policies allow, and demand the signatures that these require.
    sourcepolicy.ROW,
    # Protected namespaces take only what came from a repository,
    provenance.ROW,
    # and stay protected.
    protection.ROW,
    # Images get the digest that their signature was verified for,
    imagepinning.ROW,
    # After all mutations, only signed images may run.
    imageverification.ROW,
    # Encrypted Secrets are decrypted for users who may use the keys.
    decryption.ROW,
    # Ciphertext that was not decrypted is not stored.
    ciphertextguard.ROW,
)
