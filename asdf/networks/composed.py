"""A detector whose settings name both parts: any front end, then any back end.

Invariant: parameter names are `front_end.*` and `back_end.*`, and random numbers are drawn in the
order of the project's other networks, so that `ComposedDetector` with AASIST's back end equals
`SSL_AASIST`.
"""

from __future__ import annotations

from asdf.errors import UsageError
from asdf.networks.back_ends.back_end import BackEnd
from asdf.networks.ssl_detector import (
    BACK_END_SETTING,
    SSLDetector,
    build_end,
    find_back_end_class,
)
from asdf.networks.views import NetworkSections
from asdf.settings.sections import BACK_ENDS


class ComposedDetector(SSLDetector):
    """The front end of `front_end.front_end_class`, the back end of `back_end.back_end_class`."""

    def make_back_end(self, settings: NetworkSections) -> BackEnd:
        """Return the back end that the settings name.

        Raises:
            UsageError: they name none; or as in `find_back_end_class` or the back end's
                constructor.
        """
        back_end_class = find_back_end_class(settings.back_end)
        if back_end_class is None:
            raise UsageError(
                f"{BACK_END_SETTING} is None, and asdf.networks.ComposedDetector has no default "
                f"back end. Set it to one of {', '.join(BACK_ENDS)}, or the class path of your own."
            )
        value = settings.back_end.back_end_class
        build = back_end_class.from_settings
        return build_end(BACK_END_SETTING, value, build, settings, self.front_end)
