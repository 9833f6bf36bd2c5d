"""The Helm chart, made from ``deploy/base`` and ``deploy/components``: nobody edits it by hand.

Kustomize's builds enter (``builds``), with each component and without. They become one tree per
object that says what depends on which component (``merging``), and that is printed as templates
with the values of a pod where the base has constants (``templates``, ``holes``). ``values`` is the
table of values; ``values.yaml``, its schema and a page of the documentation are made of it. Open
``__main__`` first.
"""
