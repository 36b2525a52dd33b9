"""Our own checks against those of cuDNN's descriptor setters, which work without a GPU.

What a setter refuses, our checks must refuse too. What they refuse beyond that must stand in a list, with why: cuDNN
fails there only when it runs, or computes something else without a word.
"""

from __future__ import annotations

import itertools
import math
import re
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from cases import cases, examples
from cudnn_rules import MOST_STEPS, why_refused
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from rnncompat import Bias, Cell, InputMode, RNNCompatError, RNNDescriptor, RNNWeights
from rnncompat.backends import Algorithm
from rnncompat.backends.cudnn import constraints, enums, network, rows
from rnncompat.backends.cudnn.enums import Layout, MathType
from rnncompat.backends.cudnn.library import CudnnError, version, words
from rnncompat.functional import Options, read_request

INF = math.inf
WHAT = {  # of the descriptor; a simple one comes first
    "cell": list(Cell),
    "input_size": [5, 3, 1, 0, -1, 2**31 - 1, 2**31, 2**32 + 5],
    "hidden_size": [5, 1, 0, -1, 128, 129, 256, 257, 1536, 1537, 2048, 2049],
    "num_layers": [1, 2, 40, 0, -1],
    "bidirectional": [False, True],
    "bias": list(Bias),
    "input_mode": list(InputMode),
    "proj_size": [0, 1, 4, 5, 6, -1],
    "cell_clip": [
        None,
        (-0.3125, 0.1875),
        (0.5, 0.5),
        (-0.3, 0.2),
        (0.2, -0.3),
        (math.nan, 0.5),
        (-0.5, math.nan),
        (-INF, INF),
        (INF, -INF),
        (-1e300, 1e300),
    ],
}
HOW = {
    "dtype": list(enums.DATA_TYPES),
    "algorithm": list(enums.ALGORITHMS),
    "math": list(MathType),
    "layout": list(Layout),
    "dense": [True, False],
}
WIDE = WHAT | HOW
NARROW = WIDE | {
    "input_size": [5, 3],
    "hidden_size": [5],
    "num_layers": [1, 2],
    "proj_size": [0, 2, 5, 6],
    "cell_clip": [None],
    "math": [MathType.DEFAULT],
    "layout": [Layout.SEQ_MAJOR_UNPACKED, Layout.SEQ_MAJOR_PACKED],
    "dense": [True],
}
FIRST = {name: values[0] for name, values in WIDE.items()}


@lru_cache(maxsize=1)
def dropout():
    return network.Owned("DropoutDescriptor")


def theirs(asked):
    """None, or what cuDNN says."""
    d = object.__new__(RNNDescriptor)  # as if the constructor refused nothing
    for name in WHAT:
        object.__setattr__(d, name, asked[name])
    try:
        network.rnn_descriptor(
            d, asked["dtype"], asked["algorithm"], asked["math"], asked["layout"], dropout()
        )
    except CudnnError as error:
        return str(error)
    return None


def ours(asked):
    """None, or what we say."""
    try:
        d = RNNDescriptor(**{name: asked[name] for name in WHAT})
    except RNNCompatError as error:
        return str(error)
    return constraints.why_not(d, asked["dtype"], asked["algorithm"], asked["dense"])


class Stricter(NamedTuple):
    """A refusal of ours that a setter does not make."""

    says: str
    example: dict[str, Any]
    because: str
    versions: str = ""  # of cuDNN, whose setter takes the example


LISTED = (
    Stricter(
        "only the LSTM has a recurrent projection",
        {"cell": Cell.GRU, "proj_size": 5},
        "cuDNN takes P = H for no projection at all",
    ),
    Stricter(
        "a whole number below hidden_size", {"cell": Cell.LSTM, "proj_size": 5}, "the same; ours says it by 0"
    ),
    Stricter(
        "only the LSTM has a cell state to clip",
        {"cell": Cell.GRU, "cell_clip": (-0.3125, 0.1875)},
        "cuDNN ignores the clip without a word",
    ),
    Stricter(
        "skip adds x itself",
        {"input_mode": InputMode.SKIP, "input_size": 3},
        "the forward call fails",
    ),
    Stricter(
        "takes up to 2147483647 features",
        {"input_size": 2**32 + 5},
        "an int of 32 bits keeps the low ones, so that cuDNN is told 5",
    ),
    Stricter(
        "keeps the bounds of a clip in float32",
        {"cell": Cell.LSTM, "dtype": torch.float64, "cell_clip": (-0.3, 0.2)},
        "the results differ from the definition by 1e-8",
    ),
    Stricter(
        "has no lengths",
        {"algorithm": Algorithm.PERSIST_STATIC, "dense": False},
        "lengths are told with the data, and the forward call fails",
    ),
    Stricter(
        "has no bfloat16 and would run another",
        {"algorithm": Algorithm.PERSIST_STATIC, "dtype": torch.bfloat16},
        "cuDNN runs its standard algorithm without a word",
        ">=9.13",
    ),
    Stricter(
        "takes H up to",
        {"cell": Cell.LSTM, "algorithm": Algorithm.PERSIST_STATIC, "hidden_size": 1537},
        "there is no kernel, and the call fails",
    ),
    Stricter(
        "is not built here yet",
        {"algorithm": Algorithm.PERSIST_DYNAMIC},
        "cudnnBuildRNNDynamic would have to be called for each size of batch",
    ),
)


def of_version(versions):
    return SpecifierSet(versions).contains(words(version()))


def compare(asked):
    """Whether cuDNN and we take what is asked for."""
    refused, reason = theirs(asked), ours(asked)
    assert refused is None or reason is not None, f"{refused} We let it through: {asked}"
    if refused is None and reason is not None:
        found = [row for row in LISTED if row.says in reason]
        assert len(found) == 1, f"We say: {reason}; cuDNN takes it: {asked}"
    return refused is None, reason is None


@pytest.mark.parametrize("algorithm", enums.ALGORITHMS)
@pytest.mark.parametrize("cell", Cell)
def test_every_combination(cell, algorithm):
    axes = NARROW | {"cell": [cell], "algorithm": [algorithm]}
    found = {compare(dict(zip(axes, values, strict=True))) for values in itertools.product(*axes.values())}
    served = set() if algorithm is Algorithm.PERSIST_DYNAMIC else {(True, True)}
    assert {(False, False), *served} <= found


@pytest.mark.parametrize("algorithm", enums.ALGORITHMS)
@pytest.mark.parametrize("cell", Cell)
def test_every_pair_of_values(cell, algorithm):
    simple, found = FIRST | {"cell": cell, "algorithm": algorithm}, set()
    for one, other in itertools.combinations(sorted(simple.keys() - {"cell", "algorithm"}), 2):
        for values in itertools.product(WIDE[one], WIDE[other]):
            found.add(compare({**simple, one: values[0], other: values[1]}))
    assert {(False, False), (True, False)} <= found


@pytest.mark.parametrize("row", LISTED, ids=lambda row: row.says)
def test_what_we_refuse_beyond_cudnn(row):
    asked = FIRST | row.example
    if of_version(row.versions):
        assert theirs(asked) is None
        assert re.search(row.says, ours(asked))
    else:
        assert "NOT_SUPPORTED" in theirs(asked)
        assert ours(asked) is not None
    assert ours(FIRST | {"cell": asked["cell"]}) is None
    assert row.because


def accepted(monkeypatch, table, key, numbers):
    """Which *numbers* cuDNN takes for *key*."""
    found = set()
    for number in numbers:
        monkeypatch.setitem(table, key, number)
        if theirs(FIRST | {"cell": Cell.LSTM}) is None:
            found.add(number)
    return found


@pytest.mark.parametrize(
    ("table", "key"),
    [
        (enums.ALGORITHMS, Algorithm.STANDARD),
        (enums.CELL_MODES, Cell.LSTM),
        (enums.BIAS_MODES, Bias.DOUBLE),
        (enums.INPUT_MODES, InputMode.LINEAR),
    ],
    ids=["algorithm", "cell", "bias", "input"],
)
def test_our_numbers_are_all_there_are(monkeypatch, table, key):
    expected = set(table.values())
    assert accepted(monkeypatch, table, key, range(-1, 16)) == expected


def test_dtypes_and_the_precision_of_their_sums(monkeypatch):
    offered = [(enums.DATA_TYPES[dtype], enums.PRECISIONS[dtype]) for dtype in enums.DATA_TYPES]
    found = []
    for number in range(16):
        monkeypatch.setitem(enums.DATA_TYPES, torch.float32, number)
        sums = accepted(monkeypatch, enums.PRECISIONS, torch.float32, range(16))
        found += [(number, precision) for precision in sums]
    half = (2, 2)  # sums of float16 in float16, which nobody asks for
    assert sorted(found) == sorted(pair for pair in (*offered, half) if pair[0] != 9 or of_version(">=9.13"))


def as_data(layout, steps, lengths):
    """None, or what cuDNN says to rows of such lengths."""
    try:
        network._Data(0, layout, steps, 3, (network.c_int * len(lengths))(*lengths))
    except CudnnError as error:
        return str(error)
    return None


LENGTHS = [row for count in range(4) for row in itertools.product((-1, 0, 1, 2, 3, 4), repeat=count)]
LONG = [(steps, row) for steps in (MOST_STEPS, MOST_STEPS + 1) for row in ((steps,), (steps, 2), (3,))]
ROWS_LISTED = (
    ("no row has a step", (0, 0), Layout.SEQ_MAJOR_UNPACKED, "!=9.1,!=9.2,!=9.3,!=9.4"),  # fails when it runs
    ("a packed row has no step", (3, 0), Layout.SEQ_MAJOR_PACKED, "<9.5,!=9.1"),
    ("packed rows are out of order", (1, 3), Layout.SEQ_MAJOR_PACKED, "<9.5"),
    ("a padded row has no step, before 9.2", (3, 0), Layout.SEQ_MAJOR_UNPACKED, "!=9.1"),
)
"""What our rules refuse beyond some cuDNN: rule, lengths in T = 3, layout, and the versions that take them."""


@pytest.mark.parametrize("layout", Layout)
def test_the_rules_of_rows_are_those_of_cudnn(layout):
    for steps, lengths in [*itertools.product((0, 1, 2, 3), LENGTHS), *LONG]:
        refused, reason = as_data(layout, steps, lengths), why_refused(layout, steps, lengths)
        assert refused is None or reason is not None, (steps, lengths, refused)
        assert refused is not None or reason in {None, *(row[0] for row in ROWS_LISTED)}, (steps, lengths)


@pytest.mark.parametrize("row", ROWS_LISTED, ids=lambda row: row[0])
def test_rows_that_only_some_versions_refuse(row):
    rule, lengths, layout, versions = row
    assert (as_data(layout, 3, lengths) is None) == of_version(versions)
    assert why_refused(layout, 3, lengths) == (None if "9.2" in rule and of_version(">=9.2") else rule)


def test_the_most_steps_of_a_call():
    most = constraints.MOST_STEPS
    for layout in Layout:
        assert as_data(layout, most, (most,)) is None
        assert "NOT_SUPPORTED" in as_data(layout, most + 1, (most + 1,))


def parts(taken, most):
    """The rows of each call, as long.py cuts them."""
    if taken is None or taken.steps <= most:
        return [] if taken is None else [taken]
    return [part for part, _, _ in taken.parts(most)]


def hand_over(d, x, most, **options):
    """Tells cuDNN of every call that a request leads to; how many there are."""
    _, request = read_request(d, RNNWeights.init(d).by_layer(), x.float(), None, Options(**options))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "MOST_STEPS", most)
        patch.setattr(network.Shape, "_memory", lambda *_: (0, 0))  # asks for a GPU
        calls = parts(rows.rows_of(request), most)
        for part in calls:
            told = SimpleNamespace(descriptor=d, data_type=0, layout=part.layout)
            assert network.Shape(told, part.steps, part.batch, part.lengths).steps <= most
            assert why_refused(part.layout, part.steps, part.lengths or (part.steps,) * part.batch) is None
    return len(calls)


@pytest.mark.parametrize("return_states", ["last", "all"])
@given(cases(max_steps=9), st.booleans(), st.sampled_from([3, MOST_STEPS]))
@examples(200)
def test_whatever_is_handed_over_is_taken(return_states, case, turned, most):
    if 0 in (case.steps, case.batch):
        return  # such a call does not come here
    x = case.x.transpose(0, 1).contiguous().transpose(0, 1) if turned else case.x
    calls = hand_over(case.descriptor, x, most, **case.options, return_states=return_states)
    assert calls <= -(-case.steps // most)


@pytest.mark.parametrize("most", [2, MOST_STEPS])
@pytest.mark.parametrize("return_states", ["last", "all"])
def test_rows_of_any_lengths_are_taken(return_states, most):
    d, steps = RNNDescriptor("gru", 3, 5), 3
    for batch in (1, 2, 3):
        for lengths in itertools.product(range(steps + 1), repeat=batch):
            x = torch.zeros(steps, batch, 3)
            calls = hand_over(d, x, most, lengths=list(lengths), return_states=return_states)
            assert calls == -(-max(lengths) // most)
