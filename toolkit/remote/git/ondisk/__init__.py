"""A repository in a directory of this machine, for the command line: no server is asked.

A path and a reference enter, the files of one commit leave. Controllers have no such thing:
``toolkit.remote.git.url`` refuses ``file`` addresses. Open ``repository`` first.
"""
