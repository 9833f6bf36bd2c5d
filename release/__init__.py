"""Build what users get: the image without a container daemon, the wheel, whole releases.

In: Debian packages of ``requirements/debian-*.txt``, wheels of ``requirements/image.txt``, the
engine's libraries, our own packages. Out: an OCI image in one archive and its list of materials.
The same inputs give the same bytes. Developers run it; no part of the product imports it.

Open ``building.py`` first: what is in the image, layer by layer. ``platformwheel.py`` is the wheel
of the command line, ``cutting.py`` a release of all of it.
"""
