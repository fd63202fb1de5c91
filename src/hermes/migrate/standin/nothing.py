"""What `import torch_npu` gives where a converted program runs on the CPU: names that lead to those of CUDA.

Part of `hermes migrate verify`. Runs inside the user's program, imports torch and nothing of Hermes.
"""

from __future__ import annotations

import torch

npu = torch.cuda
transfer_to_npu = None
