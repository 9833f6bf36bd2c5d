"""From files to objects: builds, and variables in what was built."""
