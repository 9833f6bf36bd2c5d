"""An artifact store behind its server, as in ``tests/loopback/artifact``."""

from tests.loopback.artifact.conftest import Serve, serve, storage

__all__ = ["Serve", "serve", "storage"]
