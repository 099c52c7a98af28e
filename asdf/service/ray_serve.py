"""A service as a deployment of Ray Serve: replicas on a cluster, behind Ray's proxy.

    serve run asdf.service.ray_serve:application network=network.pt replicas=4 without_token=true

Invariant: a replica is the service of `python -m asdf serve`, with its routes, limits and answers;
Ray starts replicas, distributes requests, and replaces dead replicas. It needs the extra
`ray-serve`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from asdf.errors import UsageError
from asdf.scoring.detector import Detector
from asdf.service.app import make_app
from asdf.service.bearer_token import VARIABLE, read_token
from asdf.service.host_names import Names
from asdf.service.limits import ServiceLimits
from asdf.service.service import Service

_LIMITS = {field.name: type(field.default) for field in fields(ServiceLimits)}
# Requests that Ray forwards beyond the limit of a replica, which then refuses them itself.
_SPARE = 32
_POLL_S = 0.05


@dataclass(frozen=True)
class ReplicaOptions:
    """The options of a deployment. Other options are those of `ServiceLimits`, by their names.

    Attributes:
        network: Path or name of the network, on each machine of the cluster.
        replicas: Number of replicas.
        threads: Number of threads, and CPUs, of a replica.
        gpus: Number of GPUs of a replica, possibly a fraction.
        threshold: Threshold of verdicts; None: that of the calibration.
        network_folder: Folder with the module of your own network class, whose code is executed;
            ''.
        token_file: File with the token on each machine; '': its variable ASDF_SERVICE_TOKEN.
        without_token: Whether anyone who reaches Ray's proxy may use it.
    """

    network: str = "small"
    replicas: int = 1
    threads: int = 1
    gpus: float = 0.0
    threshold: float | None = None
    network_folder: str = ""
    token_file: str = ""
    without_token: bool = False


class Replica:
    """A replica, which Ray creates and whose health it checks."""

    def __init__(self, options: ReplicaOptions, limits: ServiceLimits) -> None:
        """Open the network, and wait until it has scored something.

        Raises:
            AsdfError: the network cannot be read, or gives no score.
            UsageError: there is no token.
        """
        self._token = read_token(Path(options.token_file) if options.token_file else None)
        if self._token is None and not options.without_token:
            raise UsageError(
                "everyone who reaches Ray's proxy could use the service. Set a token (token_file=, "
                f"or the variable {VARIABLE} of the workers), or allow everyone: "
                "without_token=true."
            )
        detector = Detector(
            options.network,
            "cuda" if options.gpus else "cpu",
            options.network_folder or None,
            threads=options.threads,
            threshold=options.threshold,
        )
        self._service = Service(detector, options.network, limits)
        until_s = time.monotonic() + limits.request_s
        while self._service.problem and time.monotonic() < until_s:
            time.sleep(_POLL_S)
        if self._service.problem:
            raise UsageError(f"the replica does not become ready: {self._service.problem}.")

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Return the ASGI application; Ray's proxy states the client."""
        # As in `Names`, the token protects it under any name, which clients know of the proxy.
        return make_app(self._service, self._token, Names("0.0.0.0", is_local=False))

    def check_health(self) -> None:
        """Raise a RuntimeError if only a restart of the replica would help."""
        if not self._service.is_live:
            raise RuntimeError("a forward pass of the network does not return")


def application(options: Mapping[str, Any]) -> Any:
    """Return the application of a service, for `serve run`, `serve.run` and files of Ray Serve.

    Args:
        options: Options of `ReplicaOptions` and `ServiceLimits` by name; text, as on a command
            line, is parsed.

    Raises:
        UsageError: an option is unknown or its value is not valid, or the package ray is missing.

    Examples:
        from ray import serve
        from asdf.service.ray_serve import application

        serve.run(application({"network": "network.pt", "replicas": 4, "queue": 16}))
    """
    replica = ReplicaOptions()
    limits = ServiceLimits()
    for name, value in options.items():
        if name in _LIMITS:
            limits = replace(limits, **{name: _read(name, value, _LIMITS[name])})
        elif hasattr(replica, name):
            # The default of None does not show its type.
            kind = float if name == "threshold" else type(getattr(replica, name))
            replica = replace(replica, **{name: _read(name, value, kind)})
        else:
            known = [*(field.name for field in fields(replica)), *_LIMITS]
            raise UsageError(f"there is no option {name!r}: there are {', '.join(known)}.")
    limits.check()
    try:
        from ray import serve
    except ImportError:
        raise UsageError(
            "replicas need the package ray: pip install 'asdf-antispoofing[ray-serve]'"
        ) from None
    deployment = serve.deployment(
        name="asdf",
        num_replicas=replica.replicas,
        ray_actor_options={"num_cpus": replica.threads, "num_gpus": replica.gpus},
        # The replica itself refuses excess requests, with the answer of a service.
        max_ongoing_requests=limits.queue + limits.calls + _SPARE,
        graceful_shutdown_timeout_s=limits.stop_s,
    )(serve.ingress()(Replica))
    return deployment.bind(replica, limits)


def _read(name: str, value: Any, kind: type) -> Any:
    """Return an option's value, parsing text."""
    if kind is bool and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    try:
        if kind is not bool:
            return kind(value)
    except (TypeError, ValueError):
        pass
    raise UsageError(f"{name} = {value!r}: give a {kind.__name__}.")
