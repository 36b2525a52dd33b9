"""Learns the letters of Shakespeare's sonnets, then writes a few lines of its own.

A language model of characters, trained with truncated backpropagation through time: the text runs past as
parallel streams, in chunks. The state after a chunk is the state before the next one; ``detach`` cuts the graph
between them. The text held out is then read in one call, and new text is written one ``step`` at a time.

Data: William Shakespeare, The Sonnets (1609), the 154 sonnets as plain text (public domain).

    python examples/sonnets_language_model.py
"""

import argparse
import math
import time
from pathlib import Path

import torch
from torch.nn import functional as F

import rnncompat

DATA = Path(__file__).parent / "data" / "shakespeare_sonnets.txt"
EMBEDDED = 32
HIDDEN = 192
STREAMS = 8
CHUNK = 80
RATE = 4e-3
DROPOUT = 0.4
GOAL = 2.5  # bits per character


# ---- data -------------------------------------------------------------------------------------------------


def read_text():
    """The letters that there are, and the text as their numbers: nine tenths to learn from, one held out."""
    text = DATA.read_text(encoding="ascii")
    letters = sorted(set(text))
    ids = torch.tensor([letters.index(letter) for letter in text])
    cut = text.index("\n\n", len(text) * 9 // 10) + 2  # at an empty line
    return letters, ids[:cut], ids[cut:]


def streams_of(ids):
    """The text cut into STREAMS pieces, side by side: ``[T, B]``."""
    steps = len(ids) // STREAMS
    return ids[: steps * STREAMS].view(STREAMS, steps).t()


# ---- the model --------------------------------------------------------------------------------------------


class LanguageModel(torch.nn.Module):
    """Scores of the next letter; the state goes in and comes out."""

    def __init__(self, letters):
        super().__init__()
        self.embedding = torch.nn.Embedding(letters, EMBEDDED)
        self.rnn = rnncompat.LSTM(EMBEDDED, HIDDEN)
        self.dropout = torch.nn.Dropout(DROPOUT)
        self.readout = torch.nn.Linear(HIDDEN, letters)

    def forward(self, ids, state=None):
        """``[T, B]`` numbers of letters to scores ``[T, B, letters]`` and the state after them."""
        output, state = self.rnn(self.embedding(ids), state)
        return self.readout(self.dropout(output)), state

    def step(self, ids, state=None):
        """The same for one letter a row, ``[B]``."""
        output, state = self.rnn.step(self.embedding(ids), state)
        return self.readout(output), state


def bits(model, ids):
    """Loss on a whole text in one call, in bits per character."""
    model.eval()
    with torch.no_grad():
        scores, _ = model(ids[:-1, None])
    return F.cross_entropy(scores.flatten(0, 1), ids[1:]).item() / math.log(2)


def bits_of_frequencies(known, ids):
    """The same for a guess that knows how often each letter comes, and nothing else."""
    counts = torch.bincount(known, minlength=int(ids.max()) + 1) + 1.0
    return -(counts / counts.sum()).log2()[ids].mean().item()


# ---- training ---------------------------------------------------------------------------------------------


def train(model, ids, epochs):
    """Trains in place, with a line of progress an epoch."""
    streams = streams_of(ids)
    starts = range(0, len(streams) - 1, CHUNK)
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(starts))
    begin = time.perf_counter()
    for epoch in range(1, epochs + 1):
        model.train()
        state, total = rnncompat.RNNState.zeros(model.rnn.descriptor, STREAMS), 0.0
        for start in starts:
            x = streams[start : start + CHUNK][: len(streams) - 1 - start]
            y = streams[start + 1 : start + 1 + CHUNK]
            scores, state = model(x, state.detach())  # the values go on, the graph ends here
            loss = F.cross_entropy(scores.flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item() * len(x)
        spent = time.perf_counter() - begin
        done = total / (len(streams) - 1) / math.log(2)
        print(f"  epoch {epoch:2d}/{epochs}  {done:.3f} bits per character  {spent:5.1f} s", flush=True)


# ---- writing ----------------------------------------------------------------------------------------------


def write(model, letters, lines, temperature=0.6):
    """New lines of text: each letter is drawn, then given to the next step."""
    model.eval()
    random = torch.Generator().manual_seed(2)
    letter, state, text = letters.index("\n"), None, ""
    with torch.no_grad():
        while text.count("\n") < lines:
            scores, state = model.step(torch.tensor([letter]), state)
            letter = torch.multinomial((scores[0] / temperature).softmax(0), 1, generator=random).item()
            text += letters[letter]
    return text


def main(epochs):
    """Trains, measures before and after on the text held out, and writes."""
    torch.manual_seed(0)
    letters, known, held_out = read_text()
    model = LanguageModel(len(letters))
    print(
        f"{len(known)} characters to learn from, {len(held_out)} held out, {len(letters)} different ones. "
        f"{STREAMS} streams, chunks of {CHUNK}:"
    )
    before = bits(model, held_out)
    train(model, known, epochs)
    after = bits(model, held_out)
    print("\nIn its own words, one step at a time:\n")
    print(write(model, letters, 12))
    print("On the held-out text, bits per character:")
    print(f"  before                         {before:.3f}")
    print(f"  letter frequencies alone       {bits_of_frequencies(known, held_out):.3f}")
    print(f"  after                          {after:.3f}   (goal {GOAL})")
    if not after <= GOAL:
        raise SystemExit("The example missed its goal.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=16, help="passes over the text (default 16)")
    torch.set_num_threads(1)  # the matrices are small: a second thread would only wait
    main(parser.parse_args().epochs)
