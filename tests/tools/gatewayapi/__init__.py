"""The definitions of the Gateway API, pinned as a Go module."""
