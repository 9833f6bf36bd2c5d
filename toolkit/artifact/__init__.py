"""Artifacts: packed and stored by sources, served over HTTP, fetched and unpacked by consumers."""
