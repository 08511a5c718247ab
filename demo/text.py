"""Training examples from the English text that every Python ships: the help topics of `pydoc_data.topics`."""

import re
from collections import Counter
from dataclasses import dataclass
from pydoc_data import topics

import torch

CONTEXT = 4  # words on either side
NEGATIVES = 5
VOCABULARY = 4096


@dataclass(frozen=True)
class Examples:
    """One row an example: the words around a position, the word at it, and random words to tell it from."""

    contexts: torch.Tensor  # [num_examples, 2 * CONTEXT] word numbers
    candidates: torch.Tensor  # [num_examples, 1 + NEGATIVES] word numbers, the true one first
    words: list[str]

    def __len__(self) -> int:
        return len(self.contexts)


def read_examples(generator: torch.Generator) -> Examples:
    """Every position of the text with a full context; word 0 stands for all rare words."""
    tokens = [word for topic in sorted(topics.topics) for word in re.findall(r"[a-z]+", topics.topics[topic].lower())]
    words = ["<rare>"] + [word for word, _ in Counter(tokens).most_common(VOCABULARY - 1)]
    number = {word: i for i, word in enumerate(words)}
    text = torch.tensor([number.get(token, 0) for token in tokens])

    windows = text.unfold(0, 2 * CONTEXT + 1, 1)  # [num_examples, 2 * CONTEXT + 1]
    contexts = torch.cat([windows[:, :CONTEXT], windows[:, CONTEXT + 1 :]], dim=1)
    # Words of the text at random: frequent words are frequent negatives.
    draws = torch.randint(len(text), (len(windows), NEGATIVES), generator=generator)
    candidates = torch.cat([windows[:, CONTEXT : CONTEXT + 1], text[draws]], dim=1)
    return Examples(contexts.contiguous(), candidates.contiguous(), words)
