"""What ``create`` makes: flags and their places in a spec go in, a manifest comes out.

``flags`` says what a flag is, ``sources`` and ``appliers`` hold the rows, one per kind; ``objects``
makes a manifest of a row and of what was typed; ``upserting`` writes it. Open ``sources`` first.
"""
