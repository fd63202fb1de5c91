"""The reader of memory snapshots of PyTorch's caching allocator, on CUDA, ROCm and Ascend alike."""
