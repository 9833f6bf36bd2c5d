"""Trusted signers of a Notary Project verification: a trust policy document and certificates.

The parsed document is encoded again for the engine, so that two parsers cannot interpret one
document differently.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from toolkit.verify.notation import document as notationdocument
from toolkit.verify.notation import stores as notationstores
from toolkit.verify.notation.document import DOCUMENT, Statement
from toolkit.verify.notation.steps import unusable
from toolkit.verify.notation.stores import Stores

CERTIFICATES: Final = (".crt", ".pem")

_HUB: Final = ("index.docker.io/", "docker.io/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A trust policy document, and PEM or DER certificates by their names.

    Raises:
        VerificationError: one of them cannot be used; the message names the field or the key.

    """

    document: bytes = field(repr=False)
    certificates: Mapping[str, bytes] = field(repr=False)
    statements: tuple[Statement, ...] = field(init=False, compare=False)
    stores: Stores = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "statements", notationdocument.read(self.document))
        object.__setattr__(self, "stores", notationstores.read(self.certificates))
        for place, statement in enumerate(self.statements):
            _check_filled(place, statement, self.stores)

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes]) -> "Policy":
        """Read ``trustpolicy.json`` and ``*.crt``, ``*.pem`` of a Secret's data.

        Raises:
            VerificationError: as above, or there is no document.

        """
        document = data.get(DOCUMENT)
        if document is None:
            raise unusable(f"the secret has no '{DOCUMENT}': add the trust policy under that key")
        certificates = {
            name: content for name, content in data.items() if name.endswith(CERTIFICATES)
        }
        return cls(document=document, certificates=certificates)

    @property
    def trust(self) -> str:
        """Return a hash that changes with every certificate and the content of the document."""
        certificates = {
            kind: sorted(sha256(one.der).hexdigest() for one in held)
            for kind, held in self.stores.items()
        }
        material = ["notation", self.for_engine(), certificates]
        return sha256(json.dumps(material, sort_keys=True).encode()).hexdigest()

    def applicable(self, repository: str) -> tuple[Statement, str]:
        """Return the statement for ``registry/name``, and the name of the repository in it.

        An exact scope wins over ``*``. Docker Hub's two names count as the same.

        Raises:
            VerificationError: there is no statement.
        """
        for name in _names(repository):
            for statement in self.statements:
                if name in statement.scopes:
                    return statement, name
        for statement in self.statements:
            if "*" in statement.scopes:
                return statement, repository
        raise unusable(
            f"no statement of the trust policy is for '{repository}': add it to the registryScopes "
            f"of one in '{DOCUMENT}', or one with '*'"
        )

    def for_engine(self) -> dict[str, Any]:
        """Return the document as it was understood."""
        return {"version": "1.0", "trustPolicies": [one.for_engine() for one in self.statements]}


def _check_filled(place: int, statement: Statement, stores: Stores) -> None:
    for number, store in enumerate(statement.trust_stores):
        kind = store.partition(":")[0]
        if not stores[kind]:
            wanted = "root certificate" if kind == "tsa" else "certificate"
            raise unusable(
                f"trustPolicies[{place}].trustStores[{number}] in '{DOCUMENT}': the secret holds "
                f"no {wanted} for this store: add one as '{kind}.<name>.crt'"
            )


def _names(repository: str) -> tuple[str, ...]:
    for prefix in _HUB:
        if repository.startswith(prefix):
            rest = repository.removeprefix(prefix)
            return tuple(f"{name}{rest}" for name in dict.fromkeys((prefix, *_HUB)))
    return (repository,)
