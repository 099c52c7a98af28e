"""Environment variables and `~` in the path settings.

Invariant: only the value that a config ends up with is expanded, so that a variable which is not
set in one layer does no harm where a later layer overrides it. An empty variable counts as not set:
'$SCRATCH/LA' must not turn into '/LA' in silence.
"""

from __future__ import annotations

import os
import re

from asdf.settings.mistakes import Complaint, shortened

VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([^{}]*)\})")


def expand(text: str) -> str:
    """Return `text` with `$NAME`, `${NAME}` and a leading `~` replaced.

    Raises:
        Complaint: a variable is not set, or is empty; names all of these.
    """
    names = [plain or braced for plain, braced in VARIABLE.findall(text)]
    # Several variables of one path are reported together, each once.
    missing = [name for name in dict.fromkeys(names) if not os.environ.get(name)]
    if missing:
        listed = shortened(", ".join(f"${name}" for name in missing), 200)
        unset = f"variable {listed} is" if len(missing) == 1 else f"variables {listed} are"
        raise Complaint(
            f"the environment {unset} not set; export {shortened(missing[0])}=... first, or write "
            "the folder out"
        )
    filled = VARIABLE.sub(lambda match: os.environ[match[1] or match[2]], text)
    return os.path.expanduser(filled)  # noqa: PTH111 - a Path would also drop a leading './'
