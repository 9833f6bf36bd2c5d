"""The HelmRelease controller: release a chart with values, keep it so, and repair what failed.

A pass observes (storage of Helm, cluster, spec), decides, acts once, and observes again. What is
here so far decides and tells, without IO: ``states`` says what a release is, ``decisions`` what to
do about it, ``outcomes`` what became of it. Open ``decisions`` first.
"""
