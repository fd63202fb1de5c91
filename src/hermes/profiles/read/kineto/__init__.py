"""The reader of traces that PyTorch's Kineto writes, for CUDA, ROCm and CPU."""
