"""Files and variables of the system for network clients: names, authorities, proxies.

A confined worker gets these, and no other settings of the operator.
"""

import ssl
from pathlib import Path
from typing import Final

VARIABLES: Final = (
    *("http_proxy", "https_proxy", "no_proxy"),  # as urllib's ``getproxies`` reads them
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),  # OpenSSL
    *("LOCALDOMAIN", "RES_OPTIONS"),  # resolv.conf(5)
)
"""Environment variables."""

_FILES: Final = (
    # Name resolution: nsswitch.conf(5) and related files.
    *("/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf"),
    # Targets of the links in the CA directories of Debian and Fedora.
    *("/usr/share/ca-certificates", "/usr/local/share/ca-certificates"),
    "/etc/pki/ca-trust/extracted",
)


def files() -> tuple[Path, ...]:
    """Return files and directories; not all of them exist everywhere."""
    paths = ssl.get_default_verify_paths()
    settings = Path(paths.openssl_cafile).with_name("openssl.cnf")
    found = (paths.cafile, paths.capath, paths.openssl_cafile, paths.openssl_capath)
    return (*map(Path, _FILES), settings, *(Path(path) for path in found if path))
