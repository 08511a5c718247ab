"""What torch.compile needs of the custom operators: shapes without data, and derivatives.

Compiled code reaches the operators of torch.ops.reprocuda directly, never the Functions of families/ (Dynamo refuses
a Function with a jvp). Its backward reads through `reprocuda::index_select` and the like, which are torch's own readers
with a backward of ours: left to itself, a compiler would sum their gradients with its own kernels.

Fake kernels ask torch's own operators, or check what those leave to their kernels, so that a graph meets the errors for
arguments of a wrong shape or dtype when it is traced.
"""

from . import bags, elementary, extrema, histograms, overwrites, reductions, scans, sums  # noqa: F401 - each registers its family's
