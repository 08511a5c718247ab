"""torchrun: two launches of two processes give the same weights, and each rank draws its own numbers."""

import json

import pytest

from reprocuda.reports import History, divergence


@pytest.fixture(scope="module")
def folders(start):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    script = start("torchrun_run.py", launcher=launcher)
    script.wait()
    return script.folders


def test_two_launches_give_the_same_weights(folders):
    hashes = {(folder / f"sha{rank}").read_text() for folder in folders for rank in (0, 1)}
    assert len(hashes) == 1
    for rank in (0, 1):
        a, b = (History.load(folder / f"history{rank}") for folder in folders)
        assert divergence(a, b).identical and len(a.losses) == 8


def test_ranks_draw_their_own_numbers_and_repeat_them(folders):
    drawn = [[(folder / f"drawn{rank}").read_text() for rank in (0, 1)] for folder in folders]
    assert drawn[0] == drawn[1] and drawn[0][0] != drawn[0][1]
    losses = [History.load(folders[0] / f"history{rank}").losses for rank in (0, 1)]
    assert losses[0] != losses[1]


def test_every_epoch_has_an_order_of_its_own(folders):
    orders = [[json.loads((folder / f"order{rank}").read_text()) for rank in (0, 1)] for folder in folders]
    assert orders[0] == orders[1] and orders[0][0] != orders[0][1]
    for order in orders[0]:
        assert len(order) == 32 and order[:16] != order[16:]
