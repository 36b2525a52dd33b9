"""Where recurrent layers lie in the HDF5 files of Keras: those of Keras 3, and the older kind that says its order.

Keras 3 (``.weights.h5``) has ``layers/lstm/cell/vars/0..2``, ``layers/bidirectional/forward_layer/cell/vars/0..2``;
the older kind, alone or under ``model_weights`` of a whole model, lists its layers and their arrays in attributes:
``lstm/lstm/lstm_cell/kernel:0``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..errors import InvalidValueError, UnsupportedError

__all__ = ["StoredLayer", "check_order", "find_layers"]

FIELDS = ("kernel", "recurrent_kernel", "bias")
_WAYS = {"forward": 0, "backward": 1}


class StoredLayer(NamedTuple):
    """One layer of a file.

    Attributes:
        name: in the model.
        arrays: of its directions, in the order of ``get_weights()``.
        path: where it lies.
        ways: of its cells: 0 forward, 1 backward.
        listed: whether the file says the order of its layers.
    """

    name: str
    arrays: tuple[Any, ...]
    path: str
    ways: tuple[int, ...]
    listed: bool


class _Cell(NamedTuple):
    """One direction: the path and the name of the layer, which way it goes, and its arrays by field."""

    path: str
    name: str
    way: int
    fields: dict[str, Any]


def find_layers(file: Any) -> list[StoredLayer]:
    """The recurrent layers of an open file, in the order of the model.

    Raises:
        InvalidValueError: there is none.
    """
    root = file.get("model_weights", file)
    listed = "layer_names" in root.attrs
    cells = list(_listed(root) if listed else _of_keras_3(file))
    layers: dict[str, list[_Cell]] = {}
    for cell in cells:
        layers.setdefault(cell.path, []).append(cell)
    if not layers:
        raise InvalidValueError(
            "the file holds no recurrent layer of Keras: no kernel beside a recurrent_kernel, and no cell/vars."
        )
    return [_layer(own, listed) for own in layers.values()]


def check_order(layers: list[StoredLayer]) -> None:
    """Refuses *layers* of which the file does not say in what order, or which way, they run.

    Raises:
        UnsupportedError: it does not.
    """
    for layer in layers:
        if len(set(layer.ways)) < len(layer.ways):
            raise UnsupportedError(
                f"layer {layer.name!r} has {len(layer.ways)} cells that are no two directions, such as those of "
                "StackedRNNCells. Give the weights of each cell to from_keras()."
            )
    places = {re.sub(r"_\d+(?=/|$)", "", layer.path) for layer in layers if not layer.listed}
    if len(places) > 1:
        raise UnsupportedError(
            f"the layers lie in {sorted(places)}, and the file does not say which comes first. Choose with prefix "
            f"among {[layer.name for layer in layers]}, or save the whole model."
        )


def _layer(cells: list[_Cell], listed: bool) -> StoredLayer:
    cells = sorted(cells, key=lambda c: c.way)
    arrays = [cell.fields[field] for cell in cells for field in FIELDS if field in cell.fields]
    ways = tuple(cell.way for cell in cells)
    return StoredLayer(cells[0].name, tuple(arrays), cells[0].path, ways, listed)


def _of_keras_3(file: Any) -> Iterator[_Cell]:
    groups: dict[str, dict[str, Any]] = {}

    def visit(path: str, item: Any) -> None:
        parent, _, leaf = path.rpartition("/")
        if parent.endswith("/cell/vars") and leaf in ("0", "1", "2") and hasattr(item, "shape"):
            groups.setdefault(parent, {})[FIELDS[int(leaf)]] = item

    file.visititems(visit)  # it follows no links, so none can lead out of the file
    for parent in sorted(groups, key=_natural):
        path = parent.removesuffix("/cell/vars")
        outer, _, last = path.rpartition("/")
        way = _WAYS.get(last.removesuffix("_layer"), 0) if last.endswith("_layer") else 0
        path = outer if last in ("forward_layer", "backward_layer") else path
        yield _Cell(path, _named(file, path), way, groups[parent])


def _named(file: Any, path: str) -> str:
    """The name that the model gives a layer, which its path may not be."""
    name = file[f"{path}/vars"].attrs.get("name") if f"{path}/vars" in file else None
    return _text(name) if name is not None else path.rpartition("/")[2]


def _listed(root: Any) -> Iterator[_Cell]:
    for layer in map(_text, root.attrs["layer_names"]):
        groups: dict[str, dict[str, Any]] = {}
        for weight in map(_text, root[layer].attrs.get("weight_names", ())):
            parent, _, leaf = weight.rpartition("/")
            groups.setdefault(parent, {})[leaf.partition(":")[0]] = root[layer][weight]
        for parent, fields in groups.items():
            if "recurrent_kernel" in fields:
                yield _cell_of(layer, parent, fields, groups)


def _cell_of(layer: str, parent: str, fields: dict[str, Any], groups: dict[str, Any]) -> _Cell:
    """The cell that lies at *parent*, such as ``enc/forward_lstm/lstm_cell``, in the group of *layer*."""
    parts = [
        part for part in parent.split("/") if not re.fullmatch(r"(lstm|gru|simple_rnn)_cell(_\d+)?", part)
    ]
    first, _, rest = parts[-1].partition("_") if parts else ("", "", "")
    other = {"forward": "backward", "backward": "forward"}.get(first)
    both = other is not None and any(f"/{other}_{rest}" in f"/{path}" for path in groups)
    if both:
        parts = parts[:-1]
    return _Cell(
        "/".join([layer, *parts]), parts[-1] if parts else layer, _WAYS[first] if both else 0, fields
    )


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _natural(path: str) -> list[tuple[int, str]]:
    """``lstm_2`` before ``lstm_10``."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path)]
