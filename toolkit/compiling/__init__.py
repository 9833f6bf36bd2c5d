"""Compile Go: the engine, the control plane and the programs of tests, all in the same way.

A package that two of them need is compiled once, because the flags are the same (``flags``) and
the modules have the same versions (a test compares the go.mod files). ``running`` runs a build,
``estimate`` tells what is left of it, and ``failures`` puts its end into one sentence. Open
``flags`` first.
"""
