"""Whether an image is signed as an ImageVerificationPolicy demands; for the gate and controllers.

A policy and a digest go in; who signed comes out, or the reason why nobody who is trusted did.
``trust`` reads the keys that a policy names, ``proving`` asks the verifiers. Both users find out
by themselves which policies hold and which digest a tag leads to. Open ``proving`` first.
"""
