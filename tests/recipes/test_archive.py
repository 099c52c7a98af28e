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
    train = '    "list-train": Corpus("train_list.txt"),\n'
    dev = '    "list-dev": Corpus("dev_list.txt"),\n'
    corpora = f"{train}{dev}}}\n\n\ndef measure"
    text = source.read_text()
    assert text.count("}\n\n\ndef measure") == 1
    source.write_text(text.replace("}\n\n\ndef measure", corpora))
    recipe.add_configs(CONFIG)
    written = []
    for name, folder in (("a", corpus), ("b", base)):
        outcome = recipe.call(
            capsys,
            "packed",
            f"paths.database_folder={folder}",
            f"paths.system_folder={name}",
            f"paths.sad_folder=sad{name}",
        ).ok()
        assert ("reading the headers of" in outcome.output) == (name == "b")
        written.append((recipe.system(name) / "scores" / "epoch.1" / "list-dev.txt").read_bytes())
    assert written[0] == written[1] and written[0].count(b"\n") == 8
    assert not (base / "LA").exists()
