"""Buckets of S3, Google Cloud Storage and Azure Blob with one interface; one module per dialect."""
