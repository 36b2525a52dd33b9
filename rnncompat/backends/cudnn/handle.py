"""One handle of cuDNN for each thread and device, on torch's current stream."""

from __future__ import annotations

import threading

import torch

from .library import call, create

__all__ = ["handle"]


class _Handles(threading.local):
    """The handles of one thread, and their streams; they live as long as the process, as torch's own do."""

    def __init__(self) -> None:
        self.by_device: dict[int, int] = {}
        self.streams: dict[int, int] = {}


_handles = _Handles()


def handle(device: torch.device) -> int:
    """The handle of this thread for *device*, which must be the current one, set to torch's current stream."""
    index = torch.cuda.current_device() if device.index is None else device.index
    made = _handles.by_device.get(index)
    if made is None:
        made = _handles.by_device[index] = create("")
        # While a CUDA graph is captured the definition may have to run, and no handle of cuBLAS can be made then.
        torch.cuda.current_blas_handle()  # type: ignore[no-untyped-call]  # torch's own gap
    stream: int = torch._C._cuda_getCurrentRawStream(index)  # the public form makes an object a call
    if _handles.streams.get(index) != stream:
        call("cudnnSetStream", made, stream)
        _handles.streams[index] = stream
    return made
