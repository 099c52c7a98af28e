"""What a process leaves for its launcher where it fails, and how its process group is closed."""

import json
import time

import pytest
import torch.distributed as dist

from asdf.distributed import failures
from asdf.distributed.failures import record_message_for_launcher


def test_the_launcher_finds_the_message_in_its_own_layout(tmp_path, monkeypatch):
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
    before = int(time.time())
    record_message_for_launcher("no more disk")
    message = json.loads(file.read_text())["message"]
    assert message["message"] == "no more disk"
    assert message["extraInfo"]["py_callstack"] == "\nno more disk"
    assert int(message["extraInfo"]["timestamp"]) >= before


def test_without_a_launcher_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    monkeypatch.chdir(tmp_path)
    record_message_for_launcher("no more disk")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow_but("False")
@pytest.mark.parametrize("abort", [True, False])
def test_a_group_is_aborted_where_an_exchange_may_never_end(abort, tmp_path, monkeypatch):
    aborted = []
    close = dist.destroy_process_group

    def abort_group() -> None:
        aborted.append(True)
        close()

    monkeypatch.setattr(failures.distributed_c10d, "_abort_process_group", abort_group)
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    failures._close(abort=abort)
    assert not dist.is_initialized()
    assert aborted == [True] * abort
    # There is nothing left to close.
    failures._close(abort=abort)
