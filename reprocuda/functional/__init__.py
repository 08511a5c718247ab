"""What writes through an index, called directly by torch's names and arguments: a module a family."""

from .sums import index_add, index_add_, index_put, index_put_, scatter_add, scatter_add_, segment_sum

__all__ = ["index_add", "index_add_", "index_put", "index_put_", "scatter_add", "scatter_add_", "segment_sum"]
