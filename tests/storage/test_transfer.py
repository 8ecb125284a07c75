"""How many bytes of chunks are on their way at a time."""

from beam_volumes.storage.places.transfer import Transfer, _Lane, _Piece, in_flight

MIB = 1 << 20


def test_no_more_bytes_fly_than_the_limit_and_a_large_piece_flies_alone():
    lane, begun = _Lane(), []
    transfer = Transfer("reading", None, None)
    costs = [4, 4, 4, 25, 1, 4]
    transfer._expect(len(costs))
    for cost in costs:
        lane.add(_Piece(cost, 10, transfer, begun.append))
    lane.pump()
    assert len(begun) == 2
    begun[0](None)
    assert len(begun) == 3
    begun[1](None)
    assert len(begun) == 3
    begun[2](None)
    assert len(begun) == 4
    begun[3](None)
    assert len(begun) == 6 and not transfer.done()
    begun[4](None)
    begun[5](None)
    assert transfer.done() and not transfer.failed


def test_a_chunk_for_each_thread_flies_if_64_mib_hold_them():
    flying = [in_flight(mib * MIB, 4, remote=False) // MIB for mib in (1, 4, 8, 16, 20, 100)]
    assert flying == [16, 16, 32, 64, 64, 100]
    assert [in_flight(mib * MIB, 4, remote=True) // MIB for mib in (1, 20, 100)] == [64, 64, 100]
