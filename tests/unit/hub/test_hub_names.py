import pytest

from asdf.errors import UsageError
from asdf.hub import HubName, parse_name

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hub:org/net", HubName("org/net")),
        ("hub:org/net@v1", HubName("org/net", "v1")),
        ("hub:org/net@refs/pr/1", HubName("org/net", "refs/pr/1")),
        (f"org/net@{COMMIT}", HubName("org/net", COMMIT, is_explicit=False)),
        ("Org-1/wav2vec2-xls_r.300m", HubName("Org-1/wav2vec2-xls_r.300m", is_explicit=False)),
        ("hub:org/net.pt", HubName("org/net.pt")),
    ],
)
def test_names_of_the_hub(text, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_name(text) == name
    assert parse_name(str(name)) == HubName(name.repository, name.revision)


@pytest.mark.parametrize(
    "text",
    [
        "net.pt",
        "org/net.pt",
        "a/b/c",
        "/org/net",
        "./net",
        "../net",
        "org/",
        "~/net",
        "org/a--b",
        "org/net ",
        "torchaudio:WAV2VEC2_BASE",
        "",
        "org/net@",
        "org/net@../x",
        "x" * 60 + "/" + "y" * 60,
    ],
)
def test_paths(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse_name(text) is None


def test_what_is_on_this_machine_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org").mkdir()
    # A slip in the name of a file in a folder that is here.
    assert parse_name("org/net") is None
    assert parse_name("hub:org/net") == HubName("org/net")


@pytest.mark.parametrize("text", ["hub:", "hub:net", "hub:a/b/c", "hub:org/net@", "hub:o/n@a..b"])
def test_no_names_of_the_hub(text):
    with pytest.raises(UsageError, match="is not a hub name: write hub:ORG/NAME"):
        parse_name(text)
