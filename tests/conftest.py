"""Settings that every test shares."""

from __future__ import annotations

import os
import platform

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)  # two workers on two cores; results do not depend on it

pytest_plugins = ["skips"]

settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(autouse=True)
def _seed():
    """Each test starts from the same random numbers."""
    torch.manual_seed(0)


def pytest_collection_modifyitems(items):
    """All that is not ``thorough`` is ``compat``: what the long list of versions runs."""
    for item in items:
        if not item.get_closest_marker("thorough"):
            item.add_marker("compat")


@pytest.fixture(autouse=True, scope="session")
def _say_versions(record_testsuite_property):
    """The report of a run says what it ran on, so that no table need take an environment's name for it."""
    record_testsuite_property("python", platform.python_version())
    record_testsuite_property("torch", torch.__version__)
    record_testsuite_property("numpy", np.__version__)
