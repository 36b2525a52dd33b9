"""The pages are executed; their old calls are shown on purpose."""

from __future__ import annotations

import pytest

from rnncompat import legacy


@pytest.fixture(autouse=True)
def _quiet():
    with legacy.legacy_warnings("quiet"):
        yield
