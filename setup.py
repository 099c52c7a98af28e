"""The packages of the wheel, and its description; all else is in pyproject.toml.

`asdf` is in the wheel twice. The copy below `asdf_antispoofing` is for environments in which
astronomy's asdf has overwritten files of the first one (`asdf_antispoofing/clash.py`). The recipes
are data.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

# Where the files of the repository are shown, with a slash at the end, as soon as it has a public
# address: links of the description lead there.
HOME = ""

_PICTURE = re.compile(r"^!\[[^\]]*\]\([^):]+\)\n+", re.MULTILINE)
_RELATIVE_LINK = re.compile(r"\[([^\]]*)\]\(([^):#]+)\)")


def describe() -> str:
    """Return the README as a page by itself, whose links work outside the repository.

    Without `HOME` a link becomes its text, and pictures are left out.
    """
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    if HOME:
        return _RELATIVE_LINK.sub(rf"[\1]({HOME}\2)", text)
    return _RELATIVE_LINK.sub(r"\1", _PICTURE.sub("", text))


packages = find_packages(include=["asdf", "asdf.*"])
copies = [f"asdf_antispoofing._copy.{package}" for package in packages]
setup(
    packages=[*packages, *copies, "asdf_antispoofing", "asdf_antispoofing.recipes"],
    package_dir={
        "asdf_antispoofing._copy.asdf": "asdf",
        "asdf_antispoofing.recipes": "recipes",
    },
    long_description=describe(),
    long_description_content_type="text/markdown",
    project_urls={"Source": HOME} if HOME else {},
)
