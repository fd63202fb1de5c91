"""The reader of Ascend profiler databases: SQLite files that torch_npu, MindSpore and msprof write.

Files of one capture: `ascend_pytorch_profiler[_{rank}].db` or `ascend_mindspore_profiler[_{rank}].db` or `msprof_*.db`,
and beside it `analysis.db` or `communication_analyzer.db` with the sums of the profiler's own tool.
"""

from hermes.profiles.read.ascend.db.reader import claim_databases, read_database

__all__ = ["claim_databases", "read_database"]
