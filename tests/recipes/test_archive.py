"""A recipe run on a corpus in a tar: the same score files, byte for byte, as on its folder."""

import shutil
import tarfile

CONFIG = """
packed < debug
recipe.training_sets = ('list-train',)
recipe.validation_sets = ('list-dev',)
recipe.evaluation_sets = ('list-dev',)
network.max_epochs = 1
recipe.end_stage = 2
computing.network_dataloader_workers = 1
"""


def test_a_tar_scores_as_its_folder(recipe, corpus, tmp_path, capsys):
    base = tmp_path / "packed"
    base.mkdir()
    for name in ("train", "dev"):
        shutil.copy(corpus / f"{name}_list.txt", base)
    with tarfile.open(base / "LA.tar", "w") as tar:
        tar.add(corpus / "LA", "LA")
    source = recipe.folder / "run.py"
    entries = [f'    "list-{name}": Corpus("{name}_list.txt"),\n' for name in ("train", "dev")]
    text = source.read_text()
    assert text.count("CORPORA = {\n") == 1
    source.write_text(text.replace("CORPORA = {\n", "CORPORA = {\n" + "".join(entries)))
    recipe.add_configs(CONFIG)
    written = []
    for name, folder in (("a", corpus), ("b", base)):
        folders = {"database": folder, "system": name, "sad": f"sad{name}"}
        words = [f"paths.{kind}_folder={path}" for kind, path in folders.items()]
        outcome = recipe.call(capsys, "packed", *words).ok()
        assert ("reading the headers of" in outcome.output) == (name == "b")
        written.append((recipe.system(name) / "scores" / "epoch.1" / "list-dev.txt").read_bytes())
    assert written[0] == written[1] and written[0].count(b"\n") == 8
    assert not (base / "LA").exists()
