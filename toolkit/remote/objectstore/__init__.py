"""Buckets of S3, Google Cloud Storage and Azure Blob behind one interface; one dialect a module."""
