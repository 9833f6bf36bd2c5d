"""The Helm chart, generated from ``deploy/base`` and ``deploy/components``.

Its input are Kustomize's builds (``builds``), with each component and without. They become one tree
per object that says what depends on which component (``merging``). The tree is printed as templates
with the values of a pod where the base has constants (``templates``, ``holes``). ``values`` is the
table of values; ``values.yaml``, its schema and a page of the documentation are made of it. Open
``__main__`` first.
"""
