"""Where cuDNN cannot be had, backend ``cudnn`` says why in words, and nothing else happens."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest
import torch

from rnncompat.backends.cudnn import library


@pytest.fixture(autouse=True)
def _asked_anew():
    def forget():
        library._load.cache_clear()
        library.version.cache_clear()

    forget()
    yield
    forget()


@pytest.fixture
def torch_says(monkeypatch):
    """Makes torch one for CUDA that says what is given of its cuDNN."""

    def install(version, loaded=None):
        monkeypatch.setattr("torch.version.cuda", "12.8")
        monkeypatch.setattr("torch.backends.cudnn.is_available", lambda: True)
        monkeypatch.setattr("torch.backends.cudnn.version", version)
        monkeypatch.setattr(ctypes, "CDLL", loaded)

    return install


def test_it_is_there_exactly_where_torch_has_it():
    has = torch.version.cuda is not None and (torch.backends.cudnn.version() or 0) >= 90000
    assert (library.why_missing() is None) == has
    assert (library.version() > 0) == has


def test_a_torch_without_it(monkeypatch):
    monkeypatch.setattr("torch.version.cuda", None)  # of the CPU, or of ROCm, whose MIOpen passes for cuDNN
    monkeypatch.setattr("torch.backends.cudnn.is_available", lambda: True)
    assert library.why_missing() == "torch has no cuDNN here"
    assert library.version() == 0


def test_an_old_one(torch_says):
    torch_says(lambda: 8902)
    assert library.why_missing() == "torch has cuDNN 8.9 here, and it needs 9.0 or newer"


def test_one_that_torch_does_not_take(torch_says):
    def version():
        raise RuntimeError("cuDNN version incompatibility")

    torch_says(version)
    assert library.why_missing() == "cuDNN cannot be loaded: cuDNN version incompatibility"


def test_one_without_a_name_to_find_it_by(torch_says):
    def loaded(name):
        raise OSError(f"{name}: cannot open shared object file")

    torch_says(lambda: 91002, loaded)
    assert library.why_missing() == "cuDNN cannot be loaded: libcudnn.so.9: cannot open shared object file"


class Version:
    """A function of a library."""

    def __init__(self, number):
        self.number = number

    def __call__(self):
        return self.number


def test_one_that_lacks_a_function(torch_says):
    names = library._SIGNATURES.keys() - {"cudnnRNNSetClip_v9"}
    functions = {name: SimpleNamespace() for name in names}
    torch_says(lambda: 99700, lambda _: SimpleNamespace(**functions, cudnnGetVersion=Version(99700)))
    assert library.why_missing() == "cuDNN 9.97 has no function cudnnRNNSetClip_v9"
    assert library.version() == 0
