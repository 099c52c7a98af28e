"""An HTTP service that scores recordings, with a web page.

FastAPI and uvicorn, the extra `serve`, are imported when a service starts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from asdf.errors import UsageError
from asdf.service.addresses import Address, Network
from asdf.service.audit_file import AuditFile, Chain, check_audit_file
from asdf.service.limits import ServiceLimits

__all__ = [
    "Address",
    "Chain",
    "Network",
    "ServiceLimits",
    "check_audit_file",
    "check_installed",
    "serve",
]


def check_installed() -> None:
    """Raise a UsageError unless the requirements of the service are installed."""
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
    network: Network,
    address: Address,
    limits: ServiceLimits,
    announce: Callable[[str], None],
    audit: Path | None = None,
    workers: int = 1,
) -> None:
    """Serve until SIGTERM or Ctrl-C; SIGHUP reloads the network.

    Args:
        audit: Audit file in which each verdict is recorded; None: no record.
        announce: Function that is called with the service's address when it starts.
        workers: Number of worker processes, which share the limits.

    Raises:
        UsageError: a package, the token or the port is missing.
        AsdfError: the network cannot be read, the audit file cannot be written, or its chain is
            broken.
    """
    check_installed()
    from asdf.service.bearer_token import VARIABLE, read_token
    from asdf.service.processes import Serving, serve_alone, serve_by_workers
    from asdf.service.server import is_local

    token = read_token(address.token_file)
    if token is None and not is_local(address.host) and not address.without_token:
        raise UsageError(
            f"at {address.host} other machines can use the service. Set a token (--token-file or "
            f"the variable {VARIABLE}), or allow everyone: --without-token."
        )
    limits.check()
    if workers < 1:
        raise UsageError(f"workers = {workers}: give 1 or more.")
    if audit is not None:
        AuditFile(audit)
    serving = Serving(network, address, token, limits, audit)
    if workers == 1:
        serve_alone(serving, announce)
    else:
        serve_by_workers(serving, announce, workers)
