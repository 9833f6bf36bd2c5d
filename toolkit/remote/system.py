"""What a process that talks to servers needs of the system: names, authorities, the way out.

A confined worker is given these, and nothing else that the operator has set or stored.
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
"""Of the environment."""

_FILES: Final = (
    # How names are looked up: nsswitch.conf(5) and its neighbours.
    *("/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf"),
    # What the links in Debian's and Fedora's directories of authorities lead to.
    *("/usr/share/ca-certificates", "/usr/local/share/ca-certificates"),
    "/etc/pki/ca-trust/extracted",
)


def files() -> tuple[Path, ...]:
    """Return files and directories; not all of them exist everywhere."""
    paths = ssl.get_default_verify_paths()
    settings = Path(paths.openssl_cafile).with_name("openssl.cnf")
    found = (paths.cafile, paths.capath, paths.openssl_cafile, paths.openssl_capath)
    return (*map(Path, _FILES), settings, *(Path(path) for path in found if path))
