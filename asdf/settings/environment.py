"""Environment variables and `~` in the path settings.

Invariant: only the value that a config ends up with is expanded, so that a variable which is not set in one location
does no harm where a later layer overrides it. An empty variable counts as not set: '$SCRATCH/LA' must not turn
into '/LA' in silence.
"""

from __future__ import annotations

import os
import re

from asdf.settings.mistakes import Complaint, shortened

VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([^{}]*)\})")


def expand(text: str) -> str:
    """`text` with `$NAME`, `${NAME}` and a leading `~` replaced.

    Raises:
        Complaint: a variable is not set, or is empty; names all of these.
    """
    names = [plain or braced for plain, braced in VARIABLE.findall(text)]
    missing = [f"${name}" for name in dict.fromkeys(names) if not os.environ.get(name)]
    if missing:
        which = "variables" if len(missing) > 1 else "variable"
        verb = "are" if len(missing) > 1 else "is"
        raise Complaint(
            f"the environment {which} {shortened(', '.join(missing), 200)} {verb} not set; "
            f"export {shortened(missing[0][1:])}=... first, or write the folder out"
        )
    filled = VARIABLE.sub(lambda match: os.environ[match[1] or match[2]], text)
    return os.path.expanduser(filled)  # noqa: PTH111 - a Path would also drop a leading './'
