"""Name and values of a Helm release.

Input: a spec, and the content of ConfigMaps and Secrets. Output: names, values and their digests.
Nothing here renders, applies or does IO. Open ``values`` first.
"""
