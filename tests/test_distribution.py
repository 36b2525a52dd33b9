"""What is published: wheel and sdist are valid, whole, and the same from every kind of checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".tox", ".venv*", "build", "dist", "*.egg-info", "__pycache__", ".*_cache"
)


def run(*command, cwd):
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout  # noqa: S603


def build(source, target):
    """Builds an sdist, and the wheel from it, as a release does."""
    run(sys.executable, "-m", "build", "--outdir", str(target), str(source), cwd=target.parent)
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout without what lies about in it."""
    copy = tmp_path_factory.mktemp("checkout") / "rnncompat"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=LEFT_OUT)
    return copy


@pytest.fixture(scope="module")
def built(checkout, tmp_path_factory):
    return build(checkout, tmp_path_factory.mktemp("dist"))


def contents(wheel):
    """Every file of a wheel but the list of their hashes."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def sources(folder, shown):
    return {f"{shown}/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*.py")}


def test_metadata_is_valid(built):
    told = run(sys.executable, "-m", "twine", "check", "--strict", *map(str, built), cwd=ROOT)
    assert told.count("PASSED") == 2


def test_the_wheel_holds_every_file_once_and_no_other(built):
    wheel, _ = built
    names = {name for name in contents(wheel) if ".dist-info/" not in name}
    legacy = sources(ROOT / "legacy", "rnncompat/legacy")
    core = {name for name in sources(ROOT / "rnncompat", "rnncompat") if "/legacy/" not in name}
    assert names == core | legacy | {"rnncompat/py.typed"}
    assert any(name.endswith("LICENSE") for name in contents(wheel))


def test_the_sdist_holds_legacy_once(built):
    _, sdist = built
    with tarfile.open(sdist) as archive:
        names = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    assert names.count("legacy/rnndesc.py") == 1
    assert not [name for name in names if name.startswith("rnncompat/legacy/")]


def test_a_checkout_without_symlinks_builds_the_same_wheel(built, checkout, tmp_path):
    """Git writes a link as a small text file where the system has none (``core.symlinks=false``)."""
    copy = tmp_path / "rnncompat"
    shutil.copytree(checkout, copy, symlinks=True)
    link = copy / "rnncompat" / "legacy"
    assert link.is_symlink()
    link.unlink()
    link.write_text("../legacy", encoding="utf-8")
    target = tmp_path / "dist"
    target.mkdir()
    wheel, _ = build(copy, target)
    assert contents(wheel) == contents(built[0])
