"""Image automation: list tags, choose one, and write the choice into Git.

Input: objects of ``image.toolkit.fluxcd.io``. Output: their status, and commits. ``component``
wires the process, each kind has a module of its name, and ``taglists`` stores the tags. Open
``imagerepository`` first.
"""
