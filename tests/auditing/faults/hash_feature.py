"""Words are numbered in the order of a set: their embeddings depend on the hash seed of the process."""

import torch
from torch import nn

torch.manual_seed(0)
text = " ".join(f"word{number % 37}" for number in range(200)).split()
numbers = {word: number for number, word in enumerate(set(text))}  # FAULT
embedding, output = nn.Embedding(len(numbers), 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*embedding.parameters(), *output.parameters()], lr=0.1)

for start in range(0, 200, 50):
    words = torch.tensor([numbers[word] for word in text[start : start + 50]])
    loss = output(embedding(words)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
