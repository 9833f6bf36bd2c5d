"""Generate the Helm chart from ``deploy/base`` and ``deploy/components``.

The input are kustomize builds (``builds``), with and without each component. They are merged into
one tree per object with conditions by components (``merging``). The tree is printed as templates,
in which values replace some constants of the base (``templates``, ``holes``). ``values`` is the
table of values; ``values.yaml``, its schema and a page of the documentation are generated from it.
Open ``__main__`` first.
"""
