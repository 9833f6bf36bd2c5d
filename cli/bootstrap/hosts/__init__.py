"""Hosting services: create a repository, register a deploy key, and return the access.

``hosting`` has the steps, the same for all services; a module per service has the requests of its
API.
"""

from collections.abc import Mapping
from typing import Final

from cli.bootstrap.hosts import bitbucket, gitea, github, gitlab
from cli.bootstrap.hosts.dialect import Dialect

DIALECTS: Final[Mapping[str, Dialect]] = {
    # api.github.com, and GitHub Enterprise Server at another host
    "github": github.DIALECT,
    # gitlab.com, and GitLab at another host
    "gitlab": gitlab.DIALECT,
    # gitea.com, and Gitea or Forgejo at another host
    "gitea": gitea.DIALECT,
    # Bitbucket Data Center, which was called Server
    "bitbucket-server": bitbucket.DIALECT,
}
"""By the name of the command."""
