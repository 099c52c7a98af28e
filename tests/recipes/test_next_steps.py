"""The end of a demo says what to do next; other runs end as they did."""

from tests.conftest import RecipeFolder

# The corpus is there: nothing needs to be made.
NOTHING = "def make_demo_corpus(folder):\n    pass\n"


def make_demo(recipe: RecipeFolder) -> None:
    run_file = recipe.folder / "run.py"
    text = run_file.read_text().replace("from asdf.demo import make_demo_corpus\n", "")
    text = text.replace('.txt")', '.txt", make=make_demo_corpus)')
    run_file.write_text(text.replace("\nLA = ", f"\n{NOTHING}\nLA = ", 1))


def test_a_demo_ends_with_what_to_do_next(recipe, capsys, monkeypatch):
    make_demo(recipe)
    monkeypatch.chdir(recipe.folder.parent)
    ended = recipe.call(capsys, "debug", "network.max_epochs=1").ok()
    lines = ended.output.splitlines()
    first = lines.index("what next:")
    commands = [line.split("    # ")[0].strip() for line in lines[first + 1 :]]
    assert commands == [
        "open recipe/output/system1/results/report.html",
        "python -m asdf score recipe/output/system1/networks/epoch.1.pt your_recording.wav",
        "python recipe/run.py train-ssl-aasist --dry-run",
        "python recipe/run.py --list",
    ]
    assert "its scores say nothing about real recordings" in lines[first + 2]
    # What it names exists; the configs of the real recipe are not those of this test.
    for command in commands[:2]:
        path = command.replace("open ", "").replace("python -m asdf score ", "").split(" ")[0]
        assert (recipe.folder.parent / path).is_file()
    log = (recipe.system() / "log.txt").read_text()
    assert "what next:" in log


def test_other_runs_end_as_they_did(recipe, capsys):
    ended = recipe.call(capsys, "debug", "network.max_epochs=1").ok()
    assert "what next" not in ended.output
    # A demo that was not reported on.
    make_demo(recipe)
    ended = recipe.call(capsys, "debug", "recipe.end_stage=0").ok()
    assert "what next" not in ended.output
