"""Limits for charts and their files: those of Flux and Helm, or our own."""

from typing import Final

MiB: Final = 1 << 20

INDEX_BYTES: Final = 50 * MiB
"""A repository's index as it is downloaded, decompressed."""
INDEX_CHARTS: Final = 50_000
"""Names of charts in one index."""
INDEX_VERSIONS: Final = 250_000
"""Versions of all charts in one index."""
CHART_VERSIONS: Final = 50_000
"""Versions of one chart in an index."""
ENTRY_BYTES: Final = MiB
"""Limit for the entry of one version in an index, as JSON."""

CHART_BYTES: Final = 10 * MiB
"""A packaged chart."""
UNPACKED_BYTES: Final = 100 * MiB
"""All files of a chart together."""
FILE_BYTES: Final = 5 * MiB
"""One file of a chart."""
FILES: Final = 10_000
"""Files of one chart."""
PATH_DEPTH: Final = 64
"""Segments of a file's name."""

METADATA_BYTES: Final = MiB
"""Chart.yaml and Chart.lock."""
YAML_DEPTH: Final = 100
"""Maximal nesting of values."""
YAML_NODES: Final = 500_000
"""Maximal number of nodes of one YAML document; each use of an alias counts its nodes again."""

DEPENDENCIES: Final = 100
"""Dependencies that a chart may name."""
VALUES_FILES: Final = 100
"""Values files that may be merged."""
IGNORE_RULES: Final = 1_000
"""Lines of .helmignore."""
