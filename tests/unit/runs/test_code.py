"""The user's own code of a run, as its system folder saves it."""

import hashlib
import importlib
import sys
from pathlib import Path

import pytest

import asdf
from asdf.runs.start_records import code_files, save_code


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    folder = tmp_path / "recipe"
    (folder / "configs").mkdir(parents=True)
    (folder / "own_package").mkdir()
    texts = {"run.py": "1", "configs/init_config.py": "", "configs/run_configs.py": "a\n"}
    texts |= {"own_helper.py": "x = 1\n", "own_package/__init__.py": ""}
    texts |= {"own_package/nets.py": "from own_helper import x\n"}
    for name, text in {**texts, "not_used.py": "", "not_loaded.py": ""}.items():
        (folder / name).write_text(text)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "installed_nets.py").write_text("y = 2\n")
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(folder), str(tmp_path / "site"), *sys.path])
    importlib.import_module("own_package.nets")
    importlib.import_module("installed_nets")
    yield folder
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_what_is_loaded_from_the_recipe_and_what_settings_name(recipe):
    paths = ("own_package.nets.Net", "installed_nets.Net", "not_loaded.C", "none.D")
    files = code_files(recipe, (*paths, "asdf.networks.SSL_AASIST", "torch.optim.AdamW"))
    assert set(files) == {
        *("run.py", "configs/init_config.py", "configs/run_configs.py", "own_helper.py"),
        *("own_package/__init__.py", "own_package/nets.py", "not_loaded.py"),
        "elsewhere/installed_nets.py",
    }
    assert files["elsewhere/installed_nets.py"] == recipe.parent / "site" / "installed_nets.py"


def test_an_environment_in_the_folder_of_the_recipe_is_not_its_code(recipe, monkeypatch):
    packages = recipe / ".venv" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "bought_package.py").write_text("z = 3\n")
    monkeypatch.setattr(sys, "path", [str(packages), *sys.path])
    monkeypatch.setattr(sys, "prefix", str(recipe / ".venv"))
    importlib.import_module("bought_package")
    assert [name for name in code_files(recipe, []) if "bought" in name] == []
    # This package next to run.py, as in a checkout whose recipe lies at its top.
    names = set(code_files(Path(asdf.__file__).parents[1], []))
    assert not {name for name in names if name.startswith("asdf/")}


def test_a_recipe_in_the_folder_of_the_environment_has_its_code(recipe, monkeypatch):
    names = set(code_files(recipe, []))
    monkeypatch.setattr(sys, "prefix", str(recipe.parent))
    assert set(code_files(recipe, [])) == names
    assert "own_package/nets.py" in names


def test_copies_and_digests(recipe, tmp_path):
    folder = tmp_path / "system" / "code"
    files = code_files(recipe, ["installed_nets.Net"])
    digests = save_code(files, folder)
    assert digests["own_helper.py"] == hashlib.sha256(b"x = 1\n").hexdigest()
    copies = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.py")}
    assert copies == {name: path.read_bytes() for name, path in files.items()}
    # A later start saves what it ran, and nothing else.
    (recipe / "own_helper.py").write_text("x = 3\n")
    (folder / ".run.py.abc.part").write_text("half")
    del files["elsewhere/installed_nets.py"]
    assert save_code(files, folder)["own_helper.py"] != digests["own_helper.py"]
    assert (folder / "own_helper.py").read_text() == "x = 3\n"
    assert not (folder / "elsewhere" / "installed_nets.py").exists()
    assert not (folder / ".run.py.abc.part").exists()


def test_of_a_large_file_the_digest_has_to_do(recipe, tmp_path):
    (recipe / "own_helper.py").write_text("#" * 1_000_001)
    digests = save_code({"own_helper.py": recipe / "own_helper.py"}, tmp_path / "code")
    assert digests == {"own_helper.py": hashlib.sha256(b"#" * 1_000_001).hexdigest()}
    assert not (tmp_path / "code").exists()
