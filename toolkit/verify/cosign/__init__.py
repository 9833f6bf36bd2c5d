"""Signatures as cosign makes them: keys, Fulcio's certificates, logs and time stamps."""
