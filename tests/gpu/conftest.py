"""Tests that need a GPU are collected only where there is one; benchmarks/gpu_check.sh runs them there."""

import torch

import reprocuda

collect_ignore_glob = [] if torch.cuda.is_available() and reprocuda.build_info()["cuda_loaded"] else ["test_*.py"]
