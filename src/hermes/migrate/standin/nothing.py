"""The module that `import torch_npu` loads if a converted program runs on the CPU: its names lead to those of CUDA.

Part of `hermes migrate verify`. The module runs inside the user's program, and imports torch and nothing of Hermes.
"""

from __future__ import annotations

import torch

npu = torch.cuda
transfer_to_npu = None
