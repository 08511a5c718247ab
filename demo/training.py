"""The model and one training run.

The comparison is only fair if nothing but the operators under test can change a bit, so the model is written with care:

- every sum over several rows (the bag of a context, the gradients of both tables, the loss) is an index_add, an
  embedding or an indexing backward: the operators that reprocuda replaces;
- all other arithmetic stays inside one row, and is addition, subtraction and multiplication only. Those are rounded the
  same wherever the row lies; exp and log are not (the end of a vectorised loop uses another implementation);
- there is no matrix product over the batch: its gradient sums over rows too, in an order that only the BLAS knows, and
  reprocuda does not replace it.
"""

import hashlib
from dataclasses import dataclass, field

import torch
from torch import nn

from demo.text import Examples

FEATURES = 32
BATCH = 1024
EPOCHS = 6
LEARNING_RATE = 20.0  # the mean loss spreads a gradient of 1 / BATCH over rare words
SNAPSHOT_EVERY = 10  # steps


class ContextModel(nn.Module):
    """Scores candidate words for a gap: the mean embedding of the words around it times each candidate's embedding."""

    def __init__(self, num_words: int, generator: torch.Generator):
        super().__init__()
        self.context = nn.Embedding(num_words, FEATURES)
        self.target = nn.Parameter(torch.zeros(num_words, FEATURES))
        nn.init.normal_(self.context.weight, std=0.3, generator=generator)

    def forward(self, contexts: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        # contexts: [rows, num_context], candidates: [rows, num_candidates] -> [rows, num_candidates]
        rows, num_context = contexts.shape
        row_of_word = torch.arange(rows, device=contexts.device).repeat_interleave(num_context)
        bag = torch.zeros(rows, FEATURES, device=contexts.device)
        bag = bag.index_add(0, row_of_word, self.context(contexts.flatten())) * (1 / num_context)
        return (bag[:, None, :] * self.target[candidates]).sum(-1)


def hinge(scores: torch.Tensor) -> torch.Tensor:
    """The mean loss: the true word (candidate 0) should score above 1, the others below -1."""
    # scores: [rows, num_candidates]
    sign = -torch.ones_like(scores[0])
    sign[0] = 1
    losses = torch.relu(1 - scores * sign).flatten()
    everything = torch.zeros_like(losses, dtype=torch.int64)
    return losses.new_zeros(1).index_add(0, everything, losses).squeeze() * (1 / len(scores))


@dataclass
class Run:
    """What one training left behind."""

    losses: list[float] = field(default_factory=list)
    snapshots: list[torch.Tensor] = field(default_factory=list)  # all weights, every SNAPSHOT_EVERY steps
    accuracy: float = 0.0
    sha256: str = ""


def train(
    examples: Examples,
    device: str = "cpu",
    *,
    epochs: int = EPOCHS,
    order_seed: int | None = None,
    num_threads: int | None = None,
) -> Run:
    """Trains from scratch.

    Args:
        examples: the data; batches hold the same rows in every run.
        device: where to train.
        epochs: passes over the data.
        order_seed: None keeps the rows of each batch in order; a number shuffles them within their batch.
        num_threads: None keeps torch's number of threads.
    """
    usual_threads = torch.get_num_threads()
    torch.set_num_threads(num_threads or usual_threads)
    try:
        return _train(examples, device, epochs, order_seed)
    finally:
        torch.set_num_threads(usual_threads)


def _train(examples: Examples, device: str, epochs: int, order_seed: int | None) -> Run:
    model = ContextModel(len(examples.words), torch.Generator().manual_seed(0)).to(device)
    batches = torch.randperm(len(examples), generator=torch.Generator().manual_seed(1)).split(BATCH)
    within = None if order_seed is None else torch.Generator().manual_seed(order_seed)
    run = Run()
    for step in range(epochs * len(batches)):
        rows = batches[step % len(batches)]
        if within is not None:
            rows = rows[torch.randperm(len(rows), generator=within)]
        scores = model(examples.contexts[rows].to(device), examples.candidates[rows].to(device))
        loss = hinge(scores)
        loss.backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight -= weight.grad * LEARNING_RATE  # two operations, each rounded once
                weight.grad = None
        run.losses.append(loss.item())
        if step % SNAPSHOT_EVERY == 0:
            run.snapshots.append(_all_weights(model))
    run.snapshots.append(_all_weights(model))
    run.sha256 = hashlib.sha256(run.snapshots[-1].numpy().tobytes()).hexdigest()
    run.accuracy = _accuracy(model, examples, device)
    return run


def _all_weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([weight.detach().cpu().flatten() for weight in model.parameters()])


def _accuracy(model: nn.Module, examples: Examples, device: str) -> float:
    """How often the true word scores above every other candidate, on the training text."""
    with torch.no_grad():
        scores = model(examples.contexts.to(device), examples.candidates.to(device))
    return (scores[:, 0] > scores[:, 1:].amax(1)).double().mean().item()
