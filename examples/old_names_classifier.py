"""Tells the sex of a first name, one letter at a time, in the old single-step style.

The first half is a program as it was written around 2020 against RNNDesc, setweights, forward and pullback:
arrays have features first, the weights are set before every step, and backpropagation through time is
done by hand. It runs unchanged on ``rnncompat.legacy``. The second half runs the weights it has trained
through the new sequence interface: all held-out names in one call, with their lengths.

Data: US census of 1990, first names by sex (public domain). One row a name; names that carry both
sexes are left out.

    python examples/old_names_classifier.py
"""

import argparse
import csv
import time
import warnings
from collections import defaultdict
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

import rnncompat
from rnncompat import legacy as CUDNN

DATA = Path(__file__).parent / "data" / "census_first_names.csv"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
HIDDEN = 48
BATCH = 64
RATE = 4e-3
GUIDE = "docs/migrating.md"


# ---- data -------------------------------------------------------------------------------------------------


def read_names():
    """Pairs of name and label (1.0 = female), shuffled; names given to both sexes are left out."""
    sexes = defaultdict(set)
    with DATA.open(encoding="ascii") as file:
        for row in csv.DictReader(file):
            sexes[row["name"]].add(row["sex"])
    names = sorted((name, float(sex == {"female"})) for name, sex in sexes.items() if len(sex) == 1)
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(0))
    return [names[i] for i in order.tolist()]


def one_hot(letters):
    """Letters of one position, a batch of names: ``(26, B)``, features first."""
    x = torch.zeros(len(LETTERS), len(letters))
    x[[LETTERS.index(letter) for letter in letters], range(len(letters))] = 1.0
    return x


def batches_of_equal_length(names, size):
    """Lists of at most *size* names of one length: the old interface knew no padding."""
    by_length = defaultdict(list)
    for name, label in names:
        by_length[len(name)].append((name, label))
    for group in by_length.values():
        for start in range(0, len(group), size):
            yield group[start : start + size]


def steps_of(batch):
    """The inputs of a batch, one ``(26, B)`` a letter."""
    return [one_hot(letters) for letters in zip(*(name for name, _ in batch), strict=True)]


# ---- the old program --------------------------------------------------------------------------------------


def new_parameters():
    """A GRU's Wi, Wh, b as the old calls took them, and a logistic readout."""
    random = torch.Generator().manual_seed(1)
    rows = CUDNN.ngates(CUDNN.CUDNN_GRU) * HIDDEN

    def uniform(*shape):
        return (torch.rand(*shape, generator=random) * 2 - 1) / HIDDEN**0.5

    return {
        "Wi": uniform(rows, len(LETTERS)),
        "Wh": uniform(rows, HIDDEN),
        "b": torch.zeros(rows),
        "v": uniform(HIDDEN),
        "v0": torch.zeros(1),
    }


def predict_old(desc, p, steps):
    """Final states ``(H, B)`` and scores ``(B,)`` of a batch, one letter at a time."""
    h = torch.zeros(HIDDEN)
    for x in steps:
        CUDNN.setweights(desc, p["Wi"], p["Wh"], p["b"])
        y, h = CUDNN.forward(desc, x, h)
    return y, p["v"] @ y + p["v0"]


def gradients_old(desc, p, batch, weight):
    """Loss and gradients of one batch by hand: pullbacks forward, then backwards in reverse."""
    h, backs = torch.zeros(HIDDEN), []
    for x in steps_of(batch):
        CUDNN.setweights(desc, p["Wi"], p["Wh"], p["b"])
        (y, h), back = CUDNN.pullback(desc, x, h)
        backs.append(back)
    labels = torch.tensor([label for _, label in batch])
    scores = p["v"] @ y + p["v0"]
    weights = torch.where(labels > 0, weight, 1.0) / len(batch)
    loss = (weights * torch.nn.functional.softplus(scores - 2 * labels * scores)).sum()
    dscores = weights * (torch.sigmoid(scores) - labels)
    grads = {"v": y @ dscores, "v0": dscores.sum()[None], "Wi": 0, "Wh": 0, "b": 0}
    dy, dh = torch.outer(p["v"], dscores), None
    for back in reversed(backs):
        g = back(dy, dh)
        dy, dh = 0, g.h
        grads["Wi"] = grads["Wi"] + g.Wi.t()
        grads["Wh"] = grads["Wh"] + g.Wh.t()
        grads["b"] = grads["b"] + g.b
    return loss.item(), grads


def adam(p, grads, memory, t):
    """One step of Adam, written out as old scripts did."""
    for name, g in grads.items():
        m, s = memory.setdefault(name, (torch.zeros_like(g), torch.zeros_like(g)))
        m.mul_(0.9).add_(g, alpha=0.1)
        s.mul_(0.999).addcmul_(g, g, value=0.001)
        p[name] -= RATE * (m / (1 - 0.9**t)) / ((s / (1 - 0.999**t)).sqrt() + 1e-8)


def train_old(desc, p, names, epochs):
    """Trains in place, with a line of progress an epoch."""
    female = sum(label for _, label in names)
    weight = (len(names) - female) / female  # both sexes count alike
    memory, t, start = {}, 0, time.perf_counter()
    for epoch in range(1, epochs + 1):
        batches = list(batches_of_equal_length(names, BATCH))
        order = torch.randperm(len(batches), generator=torch.Generator().manual_seed(epoch))
        total = 0.0
        for i in order.tolist():
            t += 1
            loss, grads = gradients_old(desc, p, batches[i], weight)
            adam(p, grads, memory, t)
            total += loss / len(batches)
        print(
            f"  epoch {epoch:2d}/{epochs}  loss {total:.3f}  {time.perf_counter() - start:5.1f} s", flush=True
        )


# ---- the new calls ----------------------------------------------------------------------------------------


def padded(names):
    """All names as one tensor ``[T, B, 26]``, and their lengths."""
    rows = [one_hot(name).t() for name, _ in names]  # [T_b, 26] each
    return pad_sequence(rows), [len(row) for row in rows]


def predict_new(desc, p, x, lengths):
    """Final states ``[B, H]`` and scores ``[B]`` of all names in one call, with their lengths."""
    descriptor = rnncompat.RNNDescriptor("gru", len(LETTERS), HIDDEN)
    weights = rnncompat.RNNWeights(descriptor, desc.params)  # the old buffer is the new one's layout
    _, state = rnncompat.rnn_forward(descriptor, weights, x, lengths=lengths)
    final = rnncompat.final_output(descriptor, state)
    return final, final @ p["v"] + p["v0"]


# ---- the comparison ---------------------------------------------------------------------------------------


def balanced_accuracy(scores, labels):
    """Mean of the two sexes' accuracies; a constant guess has 0.50."""
    right = (scores > 0) == (labels > 0)
    return (right[labels > 0].float().mean() + right[labels == 0].float().mean()).item() / 2


def timed(function, *args, repeats=3):
    """The result and the best time of a few runs, in seconds."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = function(*args)
        best = min(best, time.perf_counter() - start)
    return result, best


def evaluate_old(desc, p, batches):
    """Final states and scores, batch by batch of equal length."""
    return [predict_old(desc, p, steps) for steps in batches]


def in_order(results, batches, names):
    """The old results as ``[B, H]`` and ``[B]`` in the order of *names*."""
    place = {name: i for i, (name, _) in enumerate(names)}
    rows = [place[name] for batch in batches for name, _ in batch]
    states, scores = torch.empty(len(names), HIDDEN), torch.empty(len(names))
    states[rows] = torch.cat([y.t() for y, _ in results])
    scores[rows] = torch.cat([score for _, score in results])
    return states, scores


def main(epochs):
    """Trains with the old calls, evaluates with both, and says how to go on."""
    names = read_names()
    held_out, training = names[: len(names) // 5], names[len(names) // 5 :]
    print(
        f"{len(training)} names to learn from, {len(held_out)} held out. Old program, one letter at a time:"
    )
    with warnings.catch_warnings(record=True) as heard:  # kept, to be shown below as Python shows them
        desc = CUDNN.RNNDesc[torch.float32](CUDNN.CUDNN_GRU, len(LETTERS), HIDDEN)
        p = new_parameters()
        train_old(desc, p, training, epochs)
        batches = list(batches_of_equal_length(held_out, BATCH))
        results, old_time = timed(evaluate_old, desc, p, [steps_of(batch) for batch in batches])
    old_states, old_scores = in_order(results, batches, held_out)
    (new_states, new_scores), new_time = timed(predict_new, desc, p, *padded(held_out))

    labels = torch.tensor([label for _, label in held_out])
    accuracy = balanced_accuracy(old_scores, labels)
    difference = max(
        (old_states - new_states).abs().max().item(), (old_scores - new_scores).abs().max().item()
    )
    print(f"\nWhat Python said meanwhile, each call site once ({len(heard)} warnings):")
    for w in heard:
        print(warnings.formatwarning(w.message, w.category, w.filename, w.lineno), end="")
    print("\nOn the held-out names:")
    print(f"  balanced accuracy, old calls   {accuracy:.3f}   (goal 0.75; a constant guess 0.50)")
    print(f"  balanced accuracy, new call    {balanced_accuracy(new_scores, labels):.3f}")
    print(f"  largest difference old - new   {difference:.1e} (goal 1e-05)")
    print(
        f"  old calls, letter by letter    {old_time * 1e3:.1f} ms, batches of up to {BATCH} names of one length"
    )
    print(f"  new call, all names at once    {new_time * 1e3:.1f} ms")
    print(f"  ratio old / new                {old_time / new_time:.2f}")
    print(f"\nTo go on: {GUIDE} has each old call beside its replacement; the warnings above name the lines.")
    print("RNNCOMPAT_LEGACY=quiet silences them, RNNCOMPAT_LEGACY=error turns them into errors.")
    if accuracy < 0.75 or difference > 1e-5:
        raise SystemExit("The demo missed its goal.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8, help="passes over the training names (default 8)")
    torch.set_num_threads(1)  # the matrices are small: a second thread would only wait
    main(parser.parse_args().epochs)
