"""Sparse tensors: entries with equal indices added up, products, reductions of products by rows, and derivatives."""
