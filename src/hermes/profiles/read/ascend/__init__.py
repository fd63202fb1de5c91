"""The reader of profiles of Ascend NPUs: text export, database export, or both, from PyTorch and MindSpore."""
