"""Who asks, and whether they may: both are the API server's to say."""
