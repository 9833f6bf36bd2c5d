"""Key services that hold the key of a data key: asked over HTTP, before a document is decrypted.

``services`` is the way in. The document says which services are asked, for what and how often, and
its author is not trusted: each module checks the address before it signs in.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from toolkit.decrypt.kms import aws, azure, gcp, vault
from toolkit.decrypt.kms.ways import KeyService

SERVICES: Final[Mapping[str, KeyService]] = MappingProxyType(
    {
        # list of the sops block: who is asked
        "kms": KeyService(ways=aws.ways, entry=aws.ENTRY),
        "gcp_kms": KeyService(ways=gcp.ways, entry=gcp.ENTRY),
        "azure_kv": KeyService(ways=azure.ways, entry=azure.ENTRY),
        # OpenBao too
        "hc_vault": KeyService(ways=vault.ways, entry=vault.ENTRY, accounts=False),
    }
)
