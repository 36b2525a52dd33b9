"""Each legacy call warns once a call site, at the caller's line; filters and switches decide as always."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
import threading
import warnings

import pytest
import torch

from rnncompat import InvalidValueError, legacy
from rnncompat.legacy.registry import REGISTRY
from rnncompat.versions import GATES

pytestmark = pytest.mark.warns

X, H = torch.ones(3), torch.zeros(2)
STYLES = {name for style in (legacy.flux, legacy.knet) for name in style.__all__ if name != "RNNDesc"}
"""``test_flux_warnings.py`` and ``test_knet_warnings.py`` have these, and all that lies in a namespace."""


@pytest.fixture
def rnn():
    with legacy.legacy_warnings("quiet"):
        return legacy.RNNDesc(legacy.CUDNN_GRU, 3, 2)


def here():
    return inspect.currentframe().f_back.f_lineno


def test_the_text_says_what_until_when_and_what_instead(rnn, heard):
    legacy.forward(rnn, X, H)
    (warning,) = heard
    assert str(warning.message) == (
        "legacy.forward() is deprecated since 0.1 and will be removed in 1.0; use rnncompat.rnn_step(). "
        "See docs/migrating.md#forward"
    )
    assert warning.category is legacy.LegacyRNNWarning
    assert issubclass(warning.category, DeprecationWarning)
    assert warning.filename == __file__


def test_a_thousand_calls_at_one_line_warn_once_and_two_lines_twice(rnn, heard):
    for _ in range(1000):
        legacy.forward(rnn, X, H)
    first = here() - 1
    assert [w.lineno for w in heard] == [first]
    legacy.forward(rnn, X, H)
    assert [w.lineno for w in heard] == [first, here() - 1]


def test_every_public_call_warns_and_none_warns_for_another(heard):
    rnn = legacy.RNNDesc(legacy.CUDNN_GRU, 3, 2)
    legacy.setweights(rnn, torch.ones(6, 3), torch.ones(6, 2), torch.ones(6))
    legacy.setweights_b(rnn, torch.ones(6, 3), torch.ones(6, 2), torch.ones(6))
    legacy.forward(rnn, X, H)
    reserve, (y, _) = legacy.forwardTrain(rnn, X, H)
    legacy.backwardData(rnn, y, y, None, H, reserve)
    legacy.backwardWeights(rnn, X, H, y, reserve)
    _, back = legacy.pullback(rnn, X, H)
    back(y, None)
    legacy.hBatch(X, H)
    legacy.params(rnn.params, 3, 2, 3)
    legacy.ngates(rnn)
    legacy.rnnParamSize(torch.float32, rnn, 3)
    legacy.upsample(torch.ones(1, 1, 1, 1), (2, 2))
    legacy.upsample_gradient(torch.ones(2, 2, 1, 1), (2, 2))
    names = [str(w.message).split("()")[0].removeprefix("legacy.") for w in heard]
    calls = [row.name for row in REGISTRY.values() if row.kind.value == "call"]
    assert sorted(names) == sorted(name for name in calls if name not in STYLES and "." not in name)


class Module(torch.nn.Module):
    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x, h):
        return legacy.forward(self.rnn, x, h)[0]  # the line that is meant


class Subclass(legacy.RNNDesc):
    def __init__(self):
        super().__init__(legacy.CUDNN_GRU, 3, 2)  # the line that is meant


@pytest.mark.parametrize(
    ("call", "owner"),
    [(lambda rnn: Module(rnn)(X, H), Module), (lambda _: Subclass(), Subclass)],
    ids=["module", "subclass"],
)
def test_the_line_is_that_of_the_call_itself(call, owner, rnn, heard):
    call(rnn)
    source, start = inspect.getsourcelines(owner)
    meant = start + next(i for i, text in enumerate(source) if "the line that is meant" in text)
    assert [(w.filename, w.lineno) for w in heard] == [(__file__, meant)]


def test_two_codes_that_compare_equal_are_two_sites(rnn, heard):
    source = "def call():\n    legacy.forward(rnn, X, H)\n"
    for name in ("one.py", "two.py"):
        scope = {"legacy": legacy, "rnn": rnn, "X": X, "H": H, "__name__": "generated"}
        exec(compile(source, name, "exec"), scope)  # noqa: S102  # the point is generated code
        scope["call"]()
        scope["call"]()
    assert [w.filename for w in heard] == ["one.py", "two.py"]


def test_under_an_error_filter_the_site_goes_on_raising(rnn):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            with pytest.raises(legacy.LegacyRNNWarning, match="rnn_step"):
                legacy.forward(rnn, X, H)


def test_switches(rnn, heard):
    with legacy.legacy_warnings("quiet"):
        legacy.forward(rnn, X, H)
        with legacy.legacy_warnings("error"):
            for _ in range(2):
                with pytest.raises(legacy.LegacyRNNWarning):
                    legacy.forward(rnn, X, H)
        legacy.forward(rnn, X, H)
    assert not heard
    wrong = pytest.raises(InvalidValueError, match="mode is 'loud'; expected one of 'warn', 'error', 'quiet'")
    with wrong, legacy.legacy_warnings("loud"):
        pytest.fail("the block was entered")


def test_threads_at_one_line_warn_once(rnn, heard):
    start = threading.Barrier(8)

    def call():
        start.wait()
        for _ in range(50):
            legacy.ngates(rnn)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(heard) == 1


PROGRAM = {
    "user.py": """
        import torch
        from rnncompat import legacy
        def call():
            for _ in range(3):
                legacy.ngates(0)   # user.py:6
    """,
    "site-packages/library.py": """
        from rnncompat import legacy
        def call():
            legacy.ngates(0)
    """,
    "main.py": """
        import user, library
        from rnncompat import legacy
        user.call(); library.call()
        legacy.ngates(0)   # main.py:5
        print("end")
    """,
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "site-packages").mkdir()
    for name, text in PROGRAM.items():
        (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


def run(folder, *flags, **variables):
    """Lines of standard error that speak of legacy calls, and whether the program reached its end."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "RNNCOMPAT"))}
    environment |= {"PYTHONPATH": str(folder / "site-packages"), **variables}
    done = subprocess.run(  # noqa: S603  # our own program
        [sys.executable, *flags, "main.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    places = [
        line.split(": ")[0].split("/")[-1]
        for line in done.stderr.splitlines()
        if "LegacyRNNWarning: " in line
    ]
    return [place for place in places if place.endswith(tuple("0123456789"))], "end" in done.stdout


@pytest.mark.parametrize(
    ("flags", "variables", "expected", "ends"),
    [
        ((), {}, ["user.py:6", "main.py:5"], True),
        (("-W", "ignore::DeprecationWarning"), {}, [], True),
        (("-W", "ignore::DeprecationWarning:user"), {}, ["main.py:5"], True),
        (("-W", "error::DeprecationWarning"), {}, [], False),
        ((), {"PYTHONWARNINGS": "ignore"}, [], True),
        (("-W", "always"), {}, ["user.py:6", "library.py:4", "main.py:5"], True),
        ((), {"RNNCOMPAT_LEGACY": "quiet"}, [], True),
        ((), {"RNNCOMPAT_LEGACY": "error"}, [], False),
    ],
    ids=["default", "ignore", "ignore-module", "error", "variable", "always", "quiet", "legacy-error"],
)
def test_what_a_user_sees(program, flags, variables, expected, ends):
    assert run(program, *flags, **variables) == (expected, ends)


def test_a_wrong_switch_is_named(program):
    environment = {**os.environ, "RNNCOMPAT_LEGACY": "loud"}
    done = subprocess.run(  # our own program
        [sys.executable, "-c", "import rnncompat.legacy"],
        env=environment,
        cwd=program,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "RNNCOMPAT_LEGACY is 'loud'; expected one of 'warn', 'error', 'quiet'" in done.stderr


def test_under_compile_it_warns_once_on_the_users_line_and_breaks_no_graph_where_it_can(rnn, heard):
    def call(x, h):
        return legacy.forward(rnn, x, h)[0]

    compiled = torch.compile(call, fullgraph=GATES["tracing"].open, backend="eager")
    results = [compiled(X, H) for _ in range(3)]
    ours = [w for w in heard if w.category is legacy.LegacyRNNWarning]  # torch has its own on Python 3.13.0
    assert [(str(w.message), w.filename) for w in ours] == [(REGISTRY["forward"].text, __file__)]
    with legacy.legacy_warnings("quiet"):
        for result in results:
            torch.testing.assert_close(result, call(X, H))
