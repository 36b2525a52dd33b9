"""Legacy tests call old names on purpose; only the tests of the warnings want to hear them."""

from __future__ import annotations

import warnings

import pytest

from rnncompat import legacy


@pytest.fixture(autouse=True)
def _quiet(request):
    if request.node.get_closest_marker("warns"):
        yield
        return
    with legacy.legacy_warnings("quiet"):
        yield


@pytest.fixture
def heard():
    """The warnings of a test, whatever filters say."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
