"""Which rows cuDNN takes, in any version from 9.0 on; tests/test_cudnn_setters.py compares this with cuDNN itself."""

from __future__ import annotations

from rnncompat.backends.cudnn.enums import Layout
from rnncompat.backends.cudnn.library import version

MOST_STEPS = 65535


def why_refused(layout, steps, lengths):
    """None, or what about *lengths* of rows in T = *steps* a cuDNN refuses, at once or when it runs."""
    packed = layout is Layout.SEQ_MAJOR_PACKED
    if not 0 < steps <= MOST_STEPS or not lengths or not 0 <= min(lengths) <= max(lengths) <= steps:
        return "sizes out of range"
    found = (
        (not any(lengths), "no row has a step"),
        (packed and max(lengths) < steps, "no packed row has T steps"),
        (packed and 0 in lengths, "a packed row has no step"),
        (packed and list(lengths) != sorted(lengths, reverse=True), "packed rows are out of order"),
        (0 in lengths and 0 < version() < 90200, "a padded row has no step, before 9.2"),
    )
    return next((text for applies, text in found if applies), None)
