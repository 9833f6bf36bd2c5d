"""Limits for one ArtifactGenerator."""

from typing import Final

ARTIFACTS: Final = 1_000
"""Artifacts of one generator, those of a path pattern counted each."""
OPERATIONS: Final = 10_000
"""Copy operations of all its artifacts together."""
TOTAL_BYTES: Final = 4 << 30
"""Files of all its artifacts together."""
SOURCE_ENTRIES: Final = 100_000
"""Files and directories of one source."""
PATTERNS: Final = 20_000
"""Limit for the patterns of one generator, after expansion of braces."""
ALTERNATIVES: Final = 64
"""Limit for the patterns to which the braces of one glob expand."""
MERGED_BYTES: Final = 5 << 20
"""One YAML file that is merged."""

SECONDS: Final = 300.0
"""One build."""
MEMORY: Final = 256 << 20
"""Bytes for a worker: names of the sources' files, and the values of two YAML files."""
