"""Each family of operators between its public functions and the compiled operators: arguments in canonical form, and
derivatives.

`sums`, `overwrites`, `reductions`, `extrema`, `scans`, `bags` and `elementary` are differentiable operations;
`routes`, `points` and `lookup` say which target belongs to which element.
"""
