"""Names by which fetching a batch shows in a profile: PyTorch's DataLoader, and calls that read or process data.

Sources: `torch/utils/data/dataloader.py`, and the profiler's range `enumerate(DataLoader)#…`. In that file, `__next__`
calls `_next_data`. With workers, `_next_data` takes results from a queue in `_try_get_data` until the batch that is due
has come; each earlier call of `_get_data` is a batch that came early. `__iter__` makes an iterator, and with it workers
that do not persist.
"""

from __future__ import annotations

RANGE = r"^enumerate\(data(loader|pipe)\)#"
WORKERS = r"_multiprocessingdataloaderiter"
MAIN_PROCESS = r"_singleprocessdataloaderiter"
NEXT_FRAME = r"utils/data/dataloader\.py\(\d+\): __next__$"
WAIT_FRAME = r"utils/data/dataloader\.py\(\d+\): _try_get_data$"
TAKE_FRAME = r"utils/data/dataloader\.py\(\d+\): _get_data$"
EPOCH_FRAME = r"utils/data/dataloader\.py\(\d+\): __iter__$"
END_FRAME = r"utils/data/dataloader\.py\(\d+\): _shutdown_workers$"
"""The loop asks for one batch more than there are, and workers that do not persist are then ended in this frame."""
FRAMES = r"utils/data/dataloader\.py\(\d+\): (__next__|_try_get_data|_get_data|__iter__|_shutdown_workers)$"

# In lower case: calls that read bytes from outside memory.
READING = (
    r"<built-in (function open|method (read|readinto|readline|readlines|pread|recv|recv_into|seek) )|/h5py/|/lmdb/"
    r"|zipfile\.py|tarfile\.py|/fsspec/|/s3fs/|/boto|/requests/|/urllib|socket\.py|pil/image\.py\(\d+\): open"
    r"|pyarrow/(fs|parquet|dataset)"
)
# In lower case: calls that turn bytes into tensors.
PROCESSING = (
    r"torchvision/(transforms|io)|torchaudio/|albumentations|/cv2|pil/image(file)?\.py|utils/data/_utils/collate\.py"
    r"|tokeniz|/transforms?[/_.]|augment|collate"
)

LONG_NS = 1_000_000
"""A ready batch is fetched in less time: 0.26 to 0.47 ms in four captures of an AlexNet job, without the queue."""
