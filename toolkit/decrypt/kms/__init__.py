"""Key services that decrypt data keys: called over HTTP, before a document is decrypted.

Open ``services`` first. The document names the service and the key, and its author is not trusted:
each module checks the address before it authenticates.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from toolkit.decrypt.kms import aws, azure, gcp, vault
from toolkit.decrypt.kms.ways import KeyService

SERVICES: Final[Mapping[str, KeyService]] = MappingProxyType(
    {
        # list in the sops block: the key service
        "kms": KeyService(ways=aws.ways, entry=aws.ENTRY),
        "gcp_kms": KeyService(ways=gcp.ways, entry=gcp.ENTRY),
        "azure_kv": KeyService(ways=azure.ways, entry=azure.ENTRY),
        # OpenBao too
        "hc_vault": KeyService(ways=vault.ways, entry=vault.ENTRY, accounts=False),
    }
)
