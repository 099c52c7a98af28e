"""An HTTP service that scores recordings, with a page for people.

FastAPI and uvicorn are imported when a service starts; they are the extra `serve`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.errors import UsageError
from asdf.service.audit_file import AuditFile, Chain, check_audit_file
from asdf.service.limits import ServiceLimits

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector
    from asdf.watermarks import WatermarkSearch

__all__ = ["Address", "Chain", "ServiceLimits", "check_audit_file", "check_installed", "serve"]


@dataclass(frozen=True)
class Address:
    """Where a service is, and who may use it.

    Attributes:
        token_file: holds the token; None: the variable ASDF_SERVICE_TOKEN has it, or nothing.
        without_token: whoever reaches the port may use it, also from other machines.
        proxies: addresses whose X-Forwarded-For says who the client is.
        names: Names under which it is asked, besides its address and those of this machine.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    without_token: bool = False
    proxies: Sequence[str] = field(default=())
    names: Sequence[str] = field(default=())


def check_installed() -> None:
    """Raise a UsageError where what the service needs is not installed."""
    try:
        import fastapi
        import prometheus_client
        import python_multipart
        import uvicorn
    except ImportError as error:
        raise UsageError(
            f"the service needs the package {error.name}: pip install 'asdf-antispoofing[serve]'"
        ) from None
    del fastapi, prometheus_client, python_multipart, uvicorn


def serve(
    detector: Detector,
    network: str,
    address: Address,
    limits: ServiceLimits,
    announce: Callable[[str], None],
    audit: Path | None = None,
    watermarks: WatermarkSearch | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        network: Path or name that the detector was opened by.
        audit: Audit file that each verdict is recorded in; None: nothing is recorded.
        watermarks: Packages that search for watermarks where a client asks for it; None: none.
        announce: Function called with the service's address when it begins.

    Raises:
        UsageError: a package, the token or the port is missing.
        AsdfError: the audit file cannot be written, or its chain is broken.
    """
    check_installed()
    from asdf.service.app import make_app
    from asdf.service.bearer_token import VARIABLE, read_token
    from asdf.service.host_names import Names
    from asdf.service.listener import listen
    from asdf.service.server import is_local, make_server, run_server
    from asdf.service.service import Service

    token = read_token(address.token_file)
    if token is None and not is_local(address.host) and not address.without_token:
        raise UsageError(
            f"at {address.host} other machines can use the service: set a token (--token-file or "
            f"the variable {VARIABLE}), or say that all may: --without-token."
        )
    limits.check()
    listener = listen(address.host, address.port)
    record = None if audit is None else AuditFile(audit)
    service = Service(detector, network, limits, record, watermarks)
    names = Names(address.host, is_local(address.host), address.names)
    app = make_app(service, token, names)
    server = make_server(app, service, address.proxies)
    run_server(server, listener, announce)
