"""How many requests a client may make."""

from __future__ import annotations

import os
from itertools import count, islice

import pytest

from asdf.service.board import Board, Seat
from asdf.service.limits import Refusal
from asdf.service.rates import Rates


class Clock:
    """Seconds that a test moves on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def allowed(rates: Rates, address: str) -> bool:
    try:
        rates.count(address)
    except Refusal as refusal:
        assert refusal.status == 429
        return False
    return True


def test_so_many_at_once_and_then_one_by_one():
    clock = Clock()
    rates = Rates(6, clock=clock)
    assert [allowed(rates, "192.0.2.1") for _ in range(8)] == [True] * 6 + [False] * 2
    with pytest.raises(Refusal) as refused:
        rates.count("192.0.2.1")
    assert refused.value.retry_after_s == 10
    clock.now += 9
    assert not allowed(rates, "192.0.2.1")
    clock.now += 1
    assert allowed(rates, "192.0.2.1")
    assert not allowed(rates, "192.0.2.1")
    clock.now += 3600
    # What was not used is not saved up beyond a minute's.
    assert [allowed(rates, "192.0.2.1") for _ in range(7)] == [True] * 6 + [False]


def test_clients_do_not_share_and_networks_do():
    rates = Rates(1, clock=Clock())
    assert allowed(rates, "192.0.2.1")
    assert allowed(rates, "192.0.2.2")
    assert not allowed(rates, "192.0.2.1")
    assert allowed(rates, "2001:db8:1:2::1")
    assert not allowed(rates, "2001:db8:1:2:ffff::1")
    assert allowed(rates, "2001:db8:1:3::1")


def charged(rates: Rates, address: str, seconds: float) -> int:
    """Charge seconds of audio; 0, or after how many seconds the client may come again."""
    try:
        rates.charge(address, seconds)
    except Refusal as refusal:
        assert refusal.status == 429
        return refusal.retry_after_s
    return 0


def test_audio_is_counted_as_well_as_requests():
    clock = Clock()
    rates = Rates(100, 60, clock)
    # A recording of any length is heard once; the client then waits until it is made up for.
    assert charged(rates, "192.0.2.1", 150) == 0
    assert charged(rates, "192.0.2.1", 1) == 91
    with pytest.raises(Refusal, match="more than 60 seconds of audio per minute"):
        rates.count("192.0.2.1")
    assert allowed(rates, "192.0.2.2")
    clock.now += 90
    assert not allowed(rates, "192.0.2.1")
    clock.now += 1
    assert allowed(rates, "192.0.2.1")
    assert charged(rates, "192.0.2.1", 20) == 0
    clock.now += 3600
    assert charged(rates, "192.0.2.1", 60) == 0
    # What was not used is not saved up beyond a minute's.
    assert charged(rates, "192.0.2.1", 1) == 1


@pytest.mark.parametrize("rates", [Rates(0, 60), Rates(5, 0)])
def test_no_limit_of_audio(rates):
    for _ in range(4):
        assert charged(rates, "192.0.2.1", 1e6) == 0
        assert allowed(rates, "192.0.2.1")


def test_no_rate_is_no_limit():
    rates = Rates(0, Clock())
    assert all(allowed(rates, "192.0.2.1") for _ in range(1000))


def test_memory_for_addresses_is_bounded():
    clock = Clock()
    rates = Rates(1, clock=clock)
    before = rates.board.allowances.nbytes
    for number in range(10_000):
        clock.now += 1e-4
        rates.count(f"client {number}")
    assert rates.board.allowances.nbytes == before
    # None of ten thousand is forgotten.
    assert not any(allowed(rates, f"client {number}") for number in range(0, 10_000, 10))


def test_of_a_full_group_the_client_seen_longest_ago_is_forgotten():
    clock = Clock()
    rates = Rates(1, clock=clock)
    groups = len(rates.board.allowances)
    names = (f"client {number}" for number in count())
    alike = islice((name for name in names if rates.board.key_of(name) % groups == 7), 17)
    clients = list(alike)
    for client in clients:
        clock.now += 1
        assert allowed(rates, client)
    assert not allowed(rates, clients[1])
    assert not allowed(rates, clients[-1])
    assert allowed(rates, clients[0])


def test_workers_share_what_a_client_has(tmp_path):
    """Four processes ask 50 times each for a client that may ask 30 times."""
    board = Board(4, lock_file=tmp_path / "lock")
    rates = Rates(30, clock=Clock(), board=board)
    allowed(rates, "192.0.2.2")
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            os._exit(sum(allowed(rates, "192.0.2.1") for _ in range(50)))
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sum(codes) == 30


def test_what_a_worker_held_goes_with_it():
    board = Board(2)
    first, second = Seat(board, 0), Seat(board, 1)
    assert [seat.take("recordings", 3) for seat in (first, first, second, second)] == [
        *[True] * 3,
        False,
    ]
    first.note_connections([5, 5, 9])
    assert second.count_connections() == 3
    assert second.count_connections(5) == 2
    assert first.count_connections() == 0
    board.empty(0)
    assert second.count("recordings") == 1
    assert second.take("recordings", 3)
    assert second.count_connections() == 0
