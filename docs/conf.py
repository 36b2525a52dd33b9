"""Settings of the documentation site: ``sphinx-build -W --keep-going -n -b html docs build/docs``.

The build imports the installed package and fetches nothing.
"""

from __future__ import annotations

import inspect
import re

import rnncompat

project = "rnncompat"
author = "the rnncompat contributors"
version = release = rnncompat.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"rnncompat {release}"
html_show_copyright = False
html_copy_source = False
myst_heading_anchors = 3  # GitHub's anchors, so that a link between pages leads to its place on both

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_ivar = True

nitpick_ignore_regex = [
    # Types of others: to link them, the build would have to fetch their inventories.
    (r"py:.*", r"torch\..*|Tensor"),
    (r"py:class", r"collections\.abc\..*|os\.PathLike|(pathlib\.)?Path"),
    # Variables in annotations: the kind of an input, the state that a module returns, a value a slot.
    (r"py:class", r"rnncompat\.\w+\.[XSV]"),
    # Results that callers read and never make.
    (r"py:class", r"(rnncompat\.weights\.)?LayerWeights|rnncompat\.doctor\.Report"),
]

_LONE_LETTER = re.compile(r"(?<=: )[A-Z]\.$")


def _before_napoleon(app, what, name, obj, options, lines):
    """Napoleon takes what stands before a colon for a type; what our functions return is told in words."""
    for i, line in enumerate(lines):
        if line == "Returns:":
            lines[i : i + 2] = [f":returns: {lines[i + 1].strip()}"]
        else:
            lines[i] = _LONE_LETTER.sub(r"\\\g<0>", line)  # "I." alone would begin a numbered list


def _after_napoleon(app, what, name, obj, options, lines):
    """The same for properties, whose first line it splits."""
    if what == "property":
        lines[:] = (inspect.getdoc(obj) or "").splitlines()


def setup(app):
    """Puts the two around napoleon, whose place is 500."""
    app.connect("autodoc-process-docstring", _before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", _after_napoleon, priority=600)
