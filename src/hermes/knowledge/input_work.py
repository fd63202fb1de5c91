"""How the fetching of a batch shows in a profile: names of PyTorch's DataLoader, and what reads or processes data.

Sources: `torch/utils/data/dataloader.py` (`__next__` calls `_next_data`; with workers that takes results from a queue
in `_try_get_data` until the batch that is due has come, and each call of `_get_data` before is a batch that came early;
`__iter__` makes an iterator, and with it workers that do not persist); the profiler's range `enumerate(DataLoader)#…`.
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
"""The loop asks for one batch more than there are, and workers that do not persist are ended there."""
FRAMES = r"utils/data/dataloader\.py\(\d+\): (__next__|_try_get_data|_get_data|__iter__|_shutdown_workers)$"

# Lower case: bytes come from somewhere else than memory.
READING = (
    r"<built-in (function open|method (read|readinto|readline|readlines|pread|recv|recv_into|seek) )|/h5py/|/lmdb/"
    r"|zipfile\.py|tarfile\.py|/fsspec/|/s3fs/|/boto|/requests/|/urllib|socket\.py|pil/image\.py\(\d+\): open"
    r"|pyarrow/(fs|parquet|dataset)"
)
# Lower case: bytes become tensors.
PROCESSING = (
    r"torchvision/(transforms|io)|torchaudio/|albumentations|/cv2|pil/image(file)?\.py|utils/data/_utils/collate\.py"
    r"|tokeniz|/transforms?[/_.]|augment|collate"
)

LONG_NS = 1_000_000
"""A batch that is ready is taken in less: 0.26 to 0.47 ms in four captures of an AlexNet job, the queue left out."""
