"""Run by the tests in a process of its own: trains a tiny model with transformers.Trainer, prints JSON.

python transformers_runs.py FOLDER
"""

import hashlib
import json
import shutil
import sys
import warnings
from pathlib import Path

import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import reprocuda
from reprocuda.integrations.transformers import ReproducibilityCallback

CONFIG = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=2
)


class Watched(BertForSequenceClassification):
    """Built from its configuration: nothing is downloaded. Looks whether operators are replaced while it trains."""

    replaced = True

    def forward(self, input_ids=None, labels=None):
        if self.training and self.replaced:
            ours = {o.name for o in reprocuda.status().operators if o.device == "cpu" and o.state == "ours"}
            assert {"index_add", "embedding"} <= ours
        return super().forward(input_ids=input_ids, labels=labels)


def data():
    tokens = torch.randint(50, (32, 6), generator=torch.Generator().manual_seed(3))
    return [{"input_ids": row, "labels": int(row[0]) % 2} for row in tokens]


def run(folder, name, *, output=None, resume=None, mode="train", recorder=None, **options):
    arguments = TrainingArguments(
        output_dir=str(folder / (output or name)),
        num_train_epochs=2,
        per_device_train_batch_size=8,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        save_steps=3,
        **{"seed": 5, "save_strategy": "no", **options},
    )
    callback = ReproducibilityCallback(mode or "train", history=folder / f"{name}.history", recorder=recorder)
    Watched.replaced = mode == "train"
    trainer = Trainer(
        model_init=lambda: Watched(CONFIG),
        args=arguments,
        train_dataset=data(),
        callbacks=[callback] if mode else [],
    )
    trainer.pop_callback(transformers.trainer_callback.PrinterCallback)
    before = torch.are_deterministic_algorithms_enabled()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train(resume_from_checkpoint=resume)
    after = torch.rand(1).item()  # where training has left the generators
    assert torch.are_deterministic_algorithms_enabled() == before
    assert not [o for o in reprocuda.status().operators if o.state == "ours"]
    weights = b"".join(weight.detach().numpy().tobytes() for weight in trainer.model.state_dict().values())
    ours = [str(w.message) for w in caught if type(w.message).__module__.startswith("reprocuda")]
    return {
        "sha": hashlib.sha256(weights).hexdigest(),
        "losses": callback.history.losses,
        "logged": {row["step"]: row["loss"] for row in trainer.state.log_history if "loss" in row},
        "after": after,
        "warnings": ours,
    }


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = Path(sys.argv[1])
    found = {"whole": run(folder, "whole", save_strategy="steps")}
    found["recorded"] = run(folder, "recorded", recorder=folder / "recorded.trace", max_steps=2)
    if sys.argv[2:] == ["short"]:
        return print(json.dumps(found))
    checkpoint = folder / "whole" / "checkpoint-3"
    found["resumed"] = run(folder, "resumed", output="whole", resume=str(checkpoint))
    shutil.copytree(checkpoint, folder / "elsewhere" / "checkpoint-3")
    found["moved"] = run(folder, "moved", resume=str(folder / "elsewhere" / "checkpoint-3"))
    found["other data"] = run(folder, "other", data_seed=6)
    found["fast"], found["without"] = run(folder, "fast", mode="fast"), run(folder, "without", mode=None)
    found["strict"] = run(folder, "strict", full_determinism=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
