"""What an ArtifactGenerator may ask for: globs, a path pattern, and whether they make sense."""
