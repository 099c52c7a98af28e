"""The packages of the wheel, and its description; all else is in pyproject.toml.

The recipes are data of a package.
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
setup(
    packages=[*packages, "asdf_antispoofing", "asdf_antispoofing.recipes"],
    package_dir={"asdf_antispoofing.recipes": "recipes"},
    long_description=describe(),
    long_description_content_type="text/markdown",
    project_urls={"Source": HOME} if HOME else {},
)
