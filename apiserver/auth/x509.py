"""Users with a client certificate (apiserver ``authentication/request/x509``)."""

from cryptography.x509.oid import NameOID

from apiserver.auth.configuration import Trust
from apiserver.call import User

_UID = "1.3.6.1.4.1.57683.2"
"""The attribute that holds a user's UID (KEP-4601, Kubernetes 1.34)."""


def user(trust: Trust, certificate: bytes) -> User | None:
    """Return the user of a certificate (DER); None if it has no name.

    Raises:
        UntrustedError: no authority for clients signed it.
    """
    leaf = trust.clients.verify(certificate)
    names = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names or not names[-1].value:
        return None
    groups = leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    uids = [str(each.value) for each in leaf.subject if each.oid.dotted_string == _UID]
    return User(
        name=str(names[-1].value),
        uid=uids[0] if len(uids) == 1 else "",
        groups=tuple(str(each.value) for each in groups),
    )
