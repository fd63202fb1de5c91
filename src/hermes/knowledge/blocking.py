"""Host calls that keep the host from feeding the device, by what they do.

Sources: torch_npu's operator executor (`aclopCompileAndExecute` compiles or looks up an operator, then launches it);
PyTorch's performance tuning guide on synchronisation (`.item()` ends in `aten::_local_scalar_dense`).
"""

from __future__ import annotations

CAUSE_OF_CALL: dict[str, str] = {
    "aclopCompileAndExecute": "compilation",
    "aclopCompileAndExecuteV2": "compilation",
    "aten::item": "read back",
    "aten::_local_scalar_dense": "read back",
}
