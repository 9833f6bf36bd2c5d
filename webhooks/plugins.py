"""The plugins, in the order in which the API server asks the mutating ones."""

from typing import Final

from webhooks import (
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
    # What could never work is refused, no matter who writes it;
    validation.ROW,
    # what is missing is only told.
    hints.ROW,
    # References to other namespaces need a grant there.
    references.ROW,
    # Nobody lends an account, a kubeconfig or keys that they do not hold,
    tenancy.TENANCY,
    # nor changes the labels of namespaces that policies go by.
    tenancy.LABELS,
    # Sources are those that policies allow, and demand the signatures that these require.
    sourcepolicy.ROW,
    # Protected namespaces take only what came from a repository,
    provenance.ROW,
    # and stay protected.
    protection.ROW,
    # Images get the digest that their signature was verified for,
    imagepinning.ROW,
    # and whatever others made of them since, nothing runs that is not signed.
    imageverification.ROW,
    # Encrypted Secrets are opened for anyone who may use the keys,
    decryption.ROW,
    # and none is stored that nobody opened.
    ciphertextguard.ROW,
)
