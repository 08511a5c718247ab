"""Which of torch's operators are replaced, by which kernels, and while which scopes are open."""
