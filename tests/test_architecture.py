"""The structure holds: imports run one way, and each rule is shown to catch what it forbids."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    [
        *ROOT.glob("rnncompat/*.py"),
        *(path for folder in ("backends", "convert") for path in ROOT.glob(f"rnncompat/{folder}/**/*.py")),
        *ROOT.glob("legacy/**/*.py"),
    ]
)


def lint(folder):
    done = subprocess.run(  # our own tool
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def copy_of_the_tree(tmp_path):
    for name in ("rnncompat", "legacy", "pyproject.toml"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(source, tmp_path / name)
    return tmp_path


def test_the_contracts_hold():
    code, output = lint(ROOT)
    assert "0 broken" in output
    assert code == 0


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("rnncompat/functional.py", "from rnncompat.legacy import forward", "Imports run one way"),
        ("rnncompat/cells.py", "from .functional import rnn_forward", "Imports run one way"),
        ("rnncompat/stray.py", "import torch", "Imports run one way"),
        ("legacy/compute.py", "from rnncompat.state import full_state", "Legacy uses the public names only"),
        ("legacy/compute.py", "from rnncompat.backends import select", "Legacy uses the public names only"),
        (
            "legacy/flux/cell.py",
            "from rnncompat.state import full_state",
            "Legacy uses the public names only",
        ),
        ("legacy/flux/cell.py", "from .recur import Recur", "The cell style is built in floors"),
        ("rnncompat/backends/reference.py", "from . import select", "Backends do not know each other"),
        (
            "rnncompat/convert/knet.py",
            "from .flux import to_flux",
            "Formats of weights do not know each other",
        ),
        ("rnncompat/convert/stray.py", "import torch", "Formats of weights do not know each other"),
    ],
)
def test_a_planted_violation_is_caught(copy_of_the_tree, file, line, contract):
    planted = copy_of_the_tree / file
    text = planted.read_text(encoding="utf-8") if planted.exists() else ""
    planted.write_text(f"{text}\n{line}\n", encoding="utf-8")
    code, output = lint(copy_of_the_tree)
    assert f"{contract} BROKEN" in output
    assert code != 0


@pytest.mark.parametrize("name", ["descriptor", "layout", "errors"])
def test_plain_files_do_not_import_torch(name):
    assert "torch" not in imported_modules(ROOT / "rnncompat" / f"{name}.py")


def imported_modules(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_underscore_names_of_torch_stay_in_backends_and_versions_in_one_file(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    if "backends" not in path.parts and path.name != "transforms.py":
        private = [
            ast.unparse(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
            and ast.unparse(node.value).split(".")[0] in ("torch", "F")
        ]
        assert not private


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_versions_are_compared_in_one_file(path):
    if path.name == "versions.py":
        with pytest.raises(AssertionError):
            assert_asks_no_version(path)
    else:
        assert_asks_no_version(path)


def assert_asks_no_version(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"torch\.__version__|version_info|TORCH_RELEASE", text)
    assert "packaging" not in imported_modules(path)
    compared = [ast.unparse(n) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Compare)]
    assert not [words for words in compared if "VERSION" in words]
    if "backends" not in path.parts and path.name != "transforms.py":  # they ask for underscore names
        assert not re.search(r"(has|get)attr\(torch", text)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            assert node.end_lineno - first.lineno < 40, node.name
