"""Images forward: tags are scanned, one is chosen, and the choice is written into Git.

Objects of ``image.toolkit.fluxcd.io`` go in; their status and commits come out. ``component`` wires
the process, each kind has a module of its name, ``taglists`` keeps what was scanned. Open
``imagerepository`` first.
"""
