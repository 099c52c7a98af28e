"""What the wheel holds, and that it works without the repository."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import PATIENCE_S, RECIPE, ROOT
from tests.packaging.conftest import copy_sources
from tests.test_docs import code_below

RECIPES = "asdf_antispoofing/recipes/"
CONFIGS = """
tiny < quickstart
recipe.training_sets = ('mini-train',)
recipe.validation_sets = ('mini-dev',)
recipe.evaluation_sets = ('mini-dev',)
network.max_epochs = 1
network.epochs_per_train_call = 1
network.network_class = 'small_networks.Plain'
network.train_clip_size = 4000
"""


@pytest.fixture(scope="module")
def names(wheel) -> list[str]:
    return zipfile.ZipFile(wheel).namelist()


def names_in(folder: Path) -> set[str]:
    paths = (path.relative_to(folder.parent) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in paths if "__pycache__" not in path.parts}


def test_the_package_is_in_the_wheel_once_and_whole(names):
    package = {name for name in names if name.startswith("asdf/")}
    assert package == names_in(ROOT / "asdf")
    beside = {name for name in names if name.startswith("asdf_antispoofing/")}
    assert {name for name in beside if not name.startswith(RECIPES)} == {
        f"asdf_antispoofing/{name}"
        for name in ("__init__.py", "clash.py", "command.py", "missing.py", "py.typed")
    }
    assert {"asdf/py.typed", "asdf_antispoofing/py.typed"} <= set(names)


def test_the_wheel_is_small(wheel):
    assert wheel.stat().st_size < 3_000_000


def test_the_shipped_detector_is_in_the_wheel_with_its_licence(names):
    files = ("small.safetensors", "facts.json", "LICENSE.txt", "NOTICE.txt")
    assert {f"asdf/shipped/small/{file}" for file in files} <= set(names)


def test_the_recipes_are_in_the_wheel_and_nothing_that_runs_wrote(names):
    recipes = {name.removeprefix(RECIPES) for name in names if name.startswith(RECIPES)}
    folders = [RECIPE.parent / name for name in ("wav2vec_aasist", "papers", "demo", "ideas")]
    known = {name for f in folders for name in names_in(f) if "/output/" not in name}
    assert recipes == known
    assert not [name for name in names if name.split("/")[0] in ("recipes", "tests", "setup.py")]


def test_the_description_has_no_link_that_is_dead_outside_the_repository(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    metadata = archive.read(name).decode()
    for target in re.findall(r"\]\(([^)]*)\)", metadata):
        assert target.startswith(("https://", "#")), target
    assert "# ASDF: Artificial Speech Detection Framework" in metadata


def test_the_command_states_the_versions(installed):
    ended = installed.run(installed.program, "--version")
    assert (ended.returncode, ended.stderr) == (0, "")
    python = ".".join(map(str, sys.version_info[:3]))
    assert re.fullmatch(
        rf"asdf-antispoofing 0\.2\.0, torch \S+ \(.*\), Python {python} \(.*/asdf\)\n", ended.stdout
    )
    assert f"({installed.site.resolve() / 'asdf'})" in ended.stdout
    by_module = installed.run(installed.python, "-m", "asdf", "--version")
    assert by_module.stdout == ended.stdout
    assert "usage: asdf-antispoofing COMMAND" in installed.run(installed.program, "--help").stdout


@pytest.mark.slow
def test_the_quickstart_brings_its_recipe_to_an_empty_folder(installed, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    for expected in ("copied the recipe wav2vec_aasist to asdf-quickstart\n", ""):
        ended = installed.run(
            installed.program, "quickstart", "recipe.end_stage=0", "--dry-run", folder=folder
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        # The second time it is there.
        assert ended.stdout.startswith(f"{expected}config quickstart: dry run")
    copied = {name for name in names_in(RECIPE) if "/output/" not in name}
    copied = {name.replace("wav2vec_aasist", "asdf-quickstart", 1) for name in copied}
    for name in ("papers", "demo"):
        copied |= {f"asdf-quickstart/{file}" for file in names_in(RECIPE.parent / name)}
    assert names_in(folder / "asdf-quickstart") == copied
    # The configs of papers and of the documents are its own.
    run_file = str(folder / "asdf-quickstart" / "run.py")
    words = ("paper-sls", "mini-wav2vec", "--explain", "paths.system_folder")
    explained = installed.run(installed.python, run_file, *words, folder=folder).stdout
    for place in ("papers/configs/sls.py:", "demo/configs/mini.py:"):
        assert str(folder / "asdf-quickstart" / place) in explained
    words = ("paper-mhfa-asvspoof5", "--dry-run", "network.max_epochs=1")
    refused = installed.run(installed.python, run_file, *words, folder=folder)
    assert "published_schedules" not in refused.stderr and "there is no folder" in refused.stderr
    refused = installed.run(installed.program, "quickstart", "net", folder=folder)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(
        "error: 'net' is not a setting of the form section.name=value."
    )


@pytest.mark.slow
def test_a_copied_recipe_trains_with_other_losses_and_its_network_scores(
    installed, tmp_path, corpus
):
    work = tmp_path / "work"
    work.mkdir()
    made = installed.run(installed.program, "new-recipe", "mine", folder=work)
    assert (made.returncode, made.stderr) == (0, "")
    recipe = work / "mine"
    (recipe / "my_loss.py").write_text(code_below("## A loss"))
    (recipe / "small_networks.py").write_text((ROOT / "tests/small_networks.py").read_text())
    configs = recipe / "configs" / "run_configs.py"
    configs.write_text(f"{configs.read_text()}\n{CONFIGS}")
    for loss in ("focal", "my_loss.Centre"):
        ended = installed.run(
            installed.python,
            "mine/run.py",
            "tiny",
            f"paths.database_folder={corpus}",
            f"paths.system_folder={loss}",
            f"network.loss='{loss}'",
            folder=work,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert f"'{loss}'" in (recipe / "output" / loss / "settings.py").read_text()
    write_m4a(work / "call.m4a")
    words = ("mine/output/focal/networks/epoch.1.pt", "call.m4a", "--network-folder", "mine")
    scored = installed.run(installed.program, "score", *words, folder=work)
    assert scored.returncode == 0, scored.stderr
    assert re.match(r"call\.m4a\t-?\d+\.\d+", scored.stdout)


def write_m4a(path: Path) -> None:
    import av

    tone = np.sin(np.arange(32000) / 20).astype(np.float32)[np.newaxis]
    with av.open(path, "w") as container:
        stream = container.add_stream("aac", rate=16000)
        stream.layout = "mono"
        frame = av.AudioFrame.from_ndarray(tone, format="fltp", layout="mono")
        frame.sample_rate = 16000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)


@pytest.mark.slow
def test_type_checkers_see_the_types_of_an_installed_asdf(environment, wheel, tmp_path):
    pytest.importorskip("mypy")
    # Without torch: reading its types would take a minute.
    (environment.site / "packages.pth").unlink()
    environment.install(str(wheel))
    source = tmp_path / "client.py"
    source.write_text(
        "import asdf\nfrom asdf.evaluation import eer\n"
        "reveal_type(asdf.Detector)\n"
        "asdf.Detector(3)\n"
    )
    options = ("--python-executable", environment.python, "--cache-dir", str(tmp_path / "cache"))
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(source)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    revealed = re.findall(r'Revealed type is "(.*?)"', ended.stdout)
    assert len(revealed) == 1 and "asdf.scoring.detector.Detector" in revealed[0], ended.stdout
    assert 'Argument 1 to "Detector" has incompatible type "int"' in ended.stdout
    assert "missing library stubs or py.typed" not in ended.stdout


@pytest.mark.slow
def test_an_editable_installation_uses_the_checkouts_recipes(environment, tmp_path):
    source = copy_sources(tmp_path / "checkout")
    environment.install("--no-build-isolation", "--editable", str(source))
    code = (
        "import asdf; from asdf.recipe.supplied import recipes_folder; "
        "print(asdf.__file__); print(recipes_folder())"
    )
    ended = environment.call(code, "-W", "error")
    checkout = source.resolve()
    expected = f"{checkout / 'asdf' / '__init__.py'}\n{checkout / 'recipes'}\n"
    assert (ended.stdout, ended.stderr) == (expected, "")
    assert environment.run(environment.program, "--version").returncode == 0


@pytest.mark.slow
def test_a_source_distribution_makes_the_same_wheel(tmp_path, names):
    source = copy_sources(tmp_path / "checkout")
    code = "from setuptools import build_meta as b; b.build_sdist('dist')"
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True, capture_output=True)
    (archive,) = (source / "dist").glob("*.tar.gz")
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path], check=True)
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    code = "from setuptools import build_meta as b; b.build_wheel('dist')"
    subprocess.run([sys.executable, "-c", code], cwd=unpacked, check=True, capture_output=True)
    (wheel,) = (unpacked / "dist").glob("*.whl")
    assert sorted(zipfile.ZipFile(wheel).namelist()) == sorted(names)
