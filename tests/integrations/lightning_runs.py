"""Run by the tests in a process of its own: trains a tiny model with Lightning and prints what came out as JSON.

python lightning_runs.py FOLDER
"""

import hashlib
import json
import logging
import sys
import warnings
from pathlib import Path

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import reprocuda
from reprocuda.integrations.lightning import ReproducibilityCallback

STEPS_AN_EPOCH, EPOCHS = 4, 3


class Words(pl.LightningModule):
    """A bag of words: an embedding's gradient and an index_add, which reprocuda replaces, and dropout."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 8)
        self.drop = torch.nn.Dropout(0.3)
        self.head = torch.nn.Linear(8, 1)

    def forward(self, words):
        rows = self.drop(self.table(words.flatten()))
        index = torch.arange(len(words)).repeat_interleave(words.shape[1])
        return self.head(torch.zeros(len(words), 8).index_add(0, index, rows))

    def training_step(self, batch, _):
        ours = {o.name for o in reprocuda.status().operators if o.device == "cpu" and o.state == "ours"}
        assert {"index_add", "embedding"} <= ours
        return self(batch[0]).square().mean()

    def validation_step(self, batch, _):
        self.log("val_loss", self(batch[0]).square().mean())

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)


def data():
    words = torch.randint(50, (32, 6), generator=torch.Generator().manual_seed(3))
    return torch.utils.data.TensorDataset(words)


def usual_loader(**options):
    return torch.utils.data.DataLoader(data(), batch_size=8, **options)


def repeating_loader(**options):
    return reprocuda.data.loader(data(), batch_size=8, num_workers=1 if options else 0, seed=2, **options)


def sha(module):
    joined = b"".join(weight.detach().numpy().tobytes() for weight in module.state_dict().values())
    return hashlib.sha256(joined).hexdigest()


def run(folder, name, *, seed=11, mode="train", recorder=None, resume=None, loader=usual_loader, every=4, **options):
    """Trains; a checkpoint after so many steps."""
    reprocuda.seed_everything(11)
    module = Words()
    callback = ReproducibilityCallback(
        seed, mode, history=folder / f"{name}.history", costs=name == "whole", recorder=recorder
    )
    checkpoint = ModelCheckpoint(folder / name, filename="{step}", every_n_train_steps=every, save_top_k=-1)
    if every == STEPS_AN_EPOCH:
        checkpoint = ModelCheckpoint(folder / name, filename="{step}", every_n_epochs=1, save_top_k=-1)
    trainer = pl.Trainer(
        accelerator="cpu",
        callbacks=[checkpoint, callback],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"max_epochs": EPOCHS, **options},
    )
    torch.rand(100)  # where the generators are before does not matter
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(module, loader(shuffle=True), loader(), ckpt_path=resume)
    trainer.test(module, loader(), verbose=False)
    assert torch.are_deterministic_algorithms_enabled() == bool(options.get("deterministic"))
    assert not [o for o in reprocuda.status().operators if o.state == "ours"]
    ours = [str(w.message) for w in caught if type(w.message).__module__.startswith("reprocuda")]
    return {"sha": sha(module), "test": trainer.callback_metrics["val_loss"].item(), "warnings": ours}


def refused():
    try:
        pl.Trainer(callbacks=[ReproducibilityCallback(mode="exact")], logger=False).fit(Words(), usual_loader())
    except ValueError as error:
        return str(error)


class Failing(Words):
    def on_train_epoch_end(self):
        raise RuntimeError("planted")


def interrupted(folder):
    """What is left after an exception: flags, generators and operators have to be what they were."""
    before = reprocuda.toolkit.flags.Flags.read()
    callback = ReproducibilityCallback(history=folder / "interrupted.history", recorder=None)
    trainer = pl.Trainer(
        max_epochs=1,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = Failing()
    state = torch.get_rng_state()
    try:
        trainer.fit(module, usual_loader())
    except RuntimeError as error:
        on = [o.name for o in reprocuda.status().operators if o.state == "ours"]
        return [
            str(error),
            list(before.diff(reprocuda.toolkit.flags.Flags.read())),
            on,
            torch.equal(state, torch.get_rng_state()),
        ]


def main():
    for quiet in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(quiet).setLevel(logging.ERROR)
    folder = Path(sys.argv[1])
    found = {"whole": run(folder, "whole")}
    (ckpt,) = (folder / "whole").glob("step=4*")
    found["resumed"] = run(folder, "resumed", resume=ckpt)
    found["mid epoch"] = run(folder, "mid epoch", loader=repeating_loader, every=3)
    (middle,) = (folder / "mid epoch").glob("step=6*")
    found["resumed in mid epoch"] = run(folder, "resumed in mid epoch", loader=repeating_loader, every=3, resume=middle)
    found["recorded"] = run(folder, "recorded", recorder=folder / "recorded.trace", max_epochs=1)
    if sys.argv[2:] == ["short"]:
        return print(json.dumps(found))
    found["other seed"] = run(folder, "other seed", seed=12)
    found["accumulated"] = run(folder, "accumulated", accumulate_grad_batches=2)
    found["other flags"] = run(folder, "other flags", mode="debug", resume=ckpt)
    found["interrupted"] = interrupted(folder)
    found["refused"] = refused()
    found["strict"] = run(folder, "strict", max_epochs=1, deterministic=True)
    torch.use_deterministic_algorithms(False)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
