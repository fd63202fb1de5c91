"""Snapshots of PyTorch's caching allocator, on CUDA, ROCm and Ascend alike."""
