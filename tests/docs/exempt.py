"""Places that parse and need no row of ``tests.fuzz.parsers``, each with the reason.

A place is a module or a folder. Only text that Penstock or its operator wrote is exempt.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_USER: Final = "reads files, flags and answers of its own user, in the user's process"
_OURS: Final = "reads what this process or its parent wrote"
_OPERATOR: Final = "reads flags, or the environment, of the operator"
_WORKER: Final = "decodes an answer of a known type; the pool bounds it and ends the worker"
_FIXED: Final = "names that look like a parser's: it parses nothing itself"

EXEMPT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "apiserver/inventories/plans.py": "reads the answer of a controller, 16 MiB at most",
        "certs/authority.py": "reads certificates that Penstock issued, from a Secret of its own",
        "certs/secret.py": "reads a Secret of its own",
        "certs/serving.py": _FIXED,
        "cli/": _USER,
        "controllers/applying/deleting.py": "reads deletionTimestamp, which the API server sets",
        "controllers/applying/redaction.py": "a pattern of escaped values",
        "controllers/components.py": _FIXED,
        "controllers/helm/running/engine.py": _FIXED,
        "controllers/kustomize/carriers.py": _OURS,
        "controllers/kustomize/decryption.py": _FIXED,
        "controllers/source/charts.py": _FIXED,
        "controllers/source/generating/builder.py": _WORKER,
        "controllers/source/generating/worker.py": _OURS,
        "crds/generate.py": "runs when Penstock is built",
        "crds/misfits.py": "a pattern of our own models",
        "toolkit/apply/comparison.py": "a pattern of our own fields",
        "toolkit/apply/ignore.py": "a JSON pointer is split at its slashes",
        "toolkit/apply/masking.py": "a pattern of escaped values",
        "toolkit/artifact/backend.py": _OPERATOR,
        "toolkit/compiling/failures.py pattern": "reads what the user's Go compiler printed",
        "toolkit/artifact/fetch.py pattern": "a pattern of our own algorithms",
        "apiserver/artifacts/blobs.py pattern": "a pattern of our own algorithms",
        "toolkit/chart/charts.py": _WORKER,
        "toolkit/chart/worker.py": _OURS,
        "toolkit/forwarding.py url": _OPERATOR,
        "toolkit/helm/actions.py": _WORKER,
        "toolkit/helm/keeping.py": "splits the path of a request of Helm's own client",
        "toolkit/kube/options.py": _OPERATOR,
        "toolkit/native/calls.py": _WORKER,
        "toolkit/native/engineworker.py": _OURS,
        "toolkit/native/frames.py": _OURS,
        "toolkit/native/sandbox/": _OURS,
        "toolkit/remote/cloud/azuretokens.py": _OPERATOR,
        "toolkit/remote/cloud/sigv4.py": "signs URLs that this process made",
        "toolkit/remote/git/edit.py": "makes objects; it reads those of a checked pack",
        "toolkit/remote/git/git.py": _WORKER,
        "toolkit/remote/git/ondisk/": "reads a repository of the user, for the command line",
        "toolkit/remote/git/push.py": "checks a name that Refspec has read",
        "toolkit/remote/git/worker.py": _OURS,
        "toolkit/verify/cosign/publicroot.py": "Sigstore's root, which its TUF keys sign",
        "toolkit/verify/gitsignatures.py": _WORKER,
        "toolkit/verify/gitworker.py": _OURS,
        "toolkit/remote/webaddress.py": "the one reader of such URLs, fed by the row URL",
        "webhooks/callers.py address": _OPERATOR,
    }
)
