"""CEL expressions of tenants, evaluated by cel-go in worker processes.

Expressions and their variables enter, outcomes leave (``Evaluator.evaluate``): no expression is
parsed or evaluated in the process of a controller. All evaluations of a reconciliation, of a
review, or of a request share one budget. Open ``evaluator`` first. This package does not know the
purpose of an expression.
"""
