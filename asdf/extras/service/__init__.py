"""An HTTP service that scores recordings, with a web page.

FastAPI and granian, the extra `serve`, are imported when a service starts.
"""

from __future__ import annotations

from asdf.extras.service.limits import ServiceLimits
from asdf.extras.service.server import Address, check_installed, serve

__all__ = ["Address", "ServiceLimits", "check_installed", "serve"]
