"""The file formats of SOPS: each module reads and writes one (``load``, ``dump``)."""
