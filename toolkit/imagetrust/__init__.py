"""Whether an image is signed as an ImageVerificationPolicy demands; for the gate and controllers.

The input is a policy and a digest. The output is the signer, or the reason why no trusted signer
was found. ``trust`` reads the keys that a policy names, ``proving`` asks the verifiers. Both users
determine themselves which policies apply and which digest a tag leads to. Open ``proving`` first.
"""
