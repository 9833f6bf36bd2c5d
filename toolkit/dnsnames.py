"""Names of the DNS, which most names in Kubernetes are (RFC 1123, ``k8s.io/apimachinery``).

A label names a namespace; a subdomain is labels with dots between them, and names an object.
"""

import re
from typing import Final

LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN: Final = re.compile(rf"{LABEL.pattern}(\.{LABEL.pattern})*")
_LONGEST_LABEL: Final = 63
_LONGEST: Final = 253


def is_label(text: str) -> bool:
    """Tell whether a text is a label."""
    return len(text) <= _LONGEST_LABEL and LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Tell whether a text is a subdomain."""
    return len(text) <= _LONGEST and SUBDOMAIN.fullmatch(text) is not None
