"""Times reprocuda beside torch: `python -m benchmarks`. A wrong result is never timed."""
