"""Data loading that repeats: the same batches for every number of workers, in every run, and after a restart."""

from .generators import owned_generators
from .loading import Loader, loader, reproduce
from .workers import seed_worker

__all__ = ["Loader", "loader", "owned_generators", "reproduce", "seed_worker"]
