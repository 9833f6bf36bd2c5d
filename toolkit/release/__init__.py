"""What a Helm release is called and made with: its name, and its values.

A spec and the content of ConfigMaps and Secrets enter; names, values and their digests leave.
Nothing here renders, applies or does IO. Open ``values`` first.
"""
