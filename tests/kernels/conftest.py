"""What tests of CUDA kernels share where there is no GPU."""

import importlib.util
import types

import pytest


@pytest.fixture
def for_hopper(request, monkeypatch):
    """The test's module ``kernels`` anew, with functions that are compiled for compute capability 9.0, with no GPU."""
    # Functions that a kernel calls are compiled for the current device, which need not exist, and kept: so not in sys.modules.
    monkeypatch.setattr(
        "numba.cuda.dispatcher.get_current_device", lambda: types.SimpleNamespace(compute_capability=(9, 0))
    )
    spec = importlib.util.find_spec(request.module.kernels.__name__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
