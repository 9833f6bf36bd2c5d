"""A repository in a local directory, for the command line, without a server.

Input: a path and a reference. Output: the files of one commit. Controllers do not use it:
``toolkit.remote.git.url`` refuses ``file`` URLs. Open ``repository`` first.
"""
