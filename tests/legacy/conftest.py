"""Legacy tests call old names on purpose; only the tests of the warnings want to hear them."""

from __future__ import annotations

import pytest

from rnncompat import legacy


@pytest.fixture(autouse=True)
def _quiet(request):
    if request.node.get_closest_marker("warns"):
        yield
        return
    with legacy.legacy_warnings("quiet"):
        yield
