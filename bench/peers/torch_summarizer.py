# SPDX-License-Identifier: Apache-2.0
"""Training updates of a pointer-generator network (See, Liu, Manning 2017) in PyTorch, for bench/summarizer.py.

Reads a number from stdin, runs that many updates, and prints the milliseconds of each as a JSON list. `plain` has
everything in the decoder's loop, as the equations stand. `expert` has only attention and the cell in it: the output
layer runs for all steps at once, the copied mass is a sum over source positions, and Adam is fused.
Shapes: B batch, S source, T target steps, V words, E embedding, H hidden.
"""
import argparse
import json
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class PointerGenerator(nn.Module):
    def __init__(self, words, embedding, hidden):
        super().__init__()
        self.hidden, self.embed = hidden, nn.Embedding(words, embedding)
        self.encoder = nn.LSTM(embedding, hidden, num_layers=2, bidirectional=True)
        self.bridge_h, self.bridge_c = nn.Linear(2 * hidden, hidden), nn.Linear(2 * hidden, hidden)
        self.cell = nn.LSTMCell(embedding + 2 * hidden, hidden)
        self.keys, self.query = nn.Linear(2 * hidden, hidden, bias=False), nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.combine, self.output = nn.Linear(3 * hidden, hidden), nn.Linear(hidden, words)
        self.switch = nn.Linear(3 * hidden + embedding, 1)

    def encode(self, source, chunk):
        x = self.embed(source.t())  # [S,B,E]
        steps, batch = source.shape[1], source.shape[0]
        pieces = steps // chunk if chunk else 1
        size = steps // pieces
        in_chunks = x.view(pieces, size, batch, -1).transpose(0, 1).reshape(size, pieces * batch, -1)
        y, (h, c) = self.encoder(in_chunks)
        memory = y.view(size, pieces, batch, -1).permute(2, 1, 0, 3).reshape(batch, steps, -1)  # [B,S,2H]

        def ends(state):  # forward of the last piece, backward of the first
            state = state.view(4, pieces, batch, self.hidden)
            return torch.cat([state[2, -1], state[3, 0]], 1)
        return memory, F.relu(self.bridge_h(ends(h))), F.relu(self.bridge_c(ends(c)))

    def attend(self, keys, memory, h):
        scores = self.score(torch.tanh(keys + self.query(h).unsqueeze(1))).squeeze(2)
        weights = F.softmax(scores, 1)
        return weights, torch.bmm(weights.unsqueeze(1), memory).squeeze(1)

    def plain(self, source, before, labels, chunk):
        memory, h, c = self.encode(source, chunk)
        keys, x = self.keys(memory), self.embed(before)
        context, loss = memory.new_zeros(memory.shape[0], memory.shape[2]), 0.0
        for t in range(before.shape[1]):
            h, c = self.cell(torch.cat([x[:, t], context], 1), (h, c))
            weights, context = self.attend(keys, memory, h)
            p = torch.sigmoid(self.switch(torch.cat([context, h, x[:, t]], 1)))
            words = F.softmax(self.output(self.combine(torch.cat([h, context], 1))), 1) * p
            words = words.scatter_add(1, source, weights * (1 - p))
            loss = loss - torch.log(words.gather(1, labels[:, t:t + 1]) + 1e-9).mean()
        return loss / before.shape[1]

    def expert(self, source, before, labels, chunk):
        memory, h, c = self.encode(source, chunk)
        keys, x = self.keys(memory), self.embed(before)
        context = memory.new_zeros(memory.shape[0], memory.shape[2])
        embedding = x.shape[2]
        w_x, w_context = self.cell.weight_ih[:, :embedding], self.cell.weight_ih[:, embedding:]
        from_x = x @ w_x.t() + self.cell.bias_ih + self.cell.bias_hh
        steps = []
        for t in range(before.shape[1]):
            i, f, g, o = (from_x[:, t] + context @ w_context.t() + h @ self.cell.weight_hh.t()).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            weights, context = self.attend(keys, memory, h)
            steps.append((h, context, weights))
        h, context, weights = (torch.stack(parts, 1) for parts in zip(*steps))
        p = torch.sigmoid(self.switch(torch.cat([context, h, x], 2))).squeeze(2)
        logits = self.output(self.combine(torch.cat([h, context], 2)))
        nats = F.cross_entropy(logits.flatten(0, 1), labels.reshape(-1), reduction="none").view(p.shape)
        copied = (weights * (source.unsqueeze(1) == labels.unsqueeze(2))).sum(2)
        return -torch.log(p * torch.exp(-nats) + (1 - p) * copied + 1e-9).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--form", choices=("plain", "expert"), required=True)
    sizes = {"batch": 1, "source": 768, "target": 192, "words": 50000, "embedding": 128, "hidden": 256, "chunk": 128}
    for name, size in {**sizes, "threads": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    model = PointerGenerator(o.words, o.embedding, o.hidden)
    optimizer = torch.optim.Adam(model.parameters(), fused=o.form == "expert")
    source = torch.randint(0, o.words, (o.batch, o.source))
    before, labels = torch.randint(0, o.words, (2, o.batch, o.target))

    def update():
        optimizer.zero_grad(set_to_none=True)
        getattr(model, o.form)(source, before, labels, o.chunk).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()

    update()
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            update()
            times.append((time.perf_counter() - start) * 1e3)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"times_ms": times, "peak_bytes": peak}), flush=True)


if __name__ == "__main__":
    main()
