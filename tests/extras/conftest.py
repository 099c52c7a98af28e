"""What tests of extras share with those of the core."""

from tests.unit.conftest import (  # noqa: F401 (fixtures)
    hub,
    hub_cache,
    hub_variables,
    network_file,
    recorded,
    recordings,
    reference,
    single_thread,
    small,
    tiny,
    waveforms,
)
