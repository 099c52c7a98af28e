"""The tests' corpus with two genuine speakers, whom one attack copies, and two voices."""

from pathlib import Path

PROTOCOLS = "LA/ASVspoof2019_LA_cm_protocols"
PARTS = {"train": "train.trn", "dev": "dev.trl"}


def make_voices(corpus: Path, folder: Path) -> Path:
    """Write the corpus with other speakers to `folder`; the recordings are linked.

    Bona fide utterances are by anna and bert in turn, of whom A01 has copies; A02 and A03 speak
    with voices of synthesisers.
    """
    (folder / PROTOCOLS).mkdir(parents=True)
    for name in ("train_list.txt", "dev_list.txt", "eval_list.txt"):
        (folder / name).symlink_to(corpus / name)
    for path in (corpus / "LA").iterdir():
        if path.name != Path(PROTOCOLS).name:
            (folder / "LA" / path.name).symlink_to(path)
    for part in PARTS.values():
        source = corpus / PROTOCOLS / f"ASVspoof2019.LA.cm.{part}.txt"
        lines = []
        for number, line in enumerate(source.read_text().splitlines()):
            _, utterance, dash, attack, key = line.split()
            speaker = f"voice{number % 2}"
            if attack in ("-", "A01"):
                speaker = ("anna", "bert")[number % 2]
            lines.append(f"{speaker} {utterance} {dash} {attack} {key}\n")
        (folder / PROTOCOLS / source.name).write_text("".join(lines))
    return folder


def trials_of(folder: Path, part: str) -> list[tuple[str, str, str]]:
    """Return (speaker, utterance, attack) of each line of the protocol of 'train' or 'dev'."""
    path = folder / PROTOCOLS / f"ASVspoof2019.LA.cm.{PARTS[part]}.txt"
    trials = []
    for line in path.read_text().splitlines():
        speaker, utterance, _, attack, _ = line.split()
        trials.append((speaker, utterance, attack))
    return trials
