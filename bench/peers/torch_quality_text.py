# SPDX-License-Identifier: Apache-2.0
"""Jobs of torch_quality.py on rows of text: labels of tokens, labels of documents, lines into lines. Batches hold rows
of like length, as those of `unroll`."""
import collections, math, re
import torch, torch.nn as nn, torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from torch_quality_rows import final_output, random_splits, recurrent

PADDING = -1


def vocabulary(counts, least, most):
    kept = sorted((w for w in counts if counts[w] >= least), key=lambda w: (-counts[w], w.encode()))
    return {word: i for i, word in enumerate(kept[:most])}


def padded_length(n):
    octave = 1 << (max(n - 1, 1).bit_length() - 1)
    unit = max(octave // 8, 4)
    return -(-max(n, 1) // unit) * unit


def shuffled_batches(lengths, size):
    """Rows in random order, sorted by padded length, cut into batches; the batches in random order."""
    order = torch.randperm(len(lengths)).tolist()
    order.sort(key=lambda row: [padded_length(n) for n in lengths[row]])
    batches = [order[i:i + size] for i in range(0, len(order), size)]
    return [batches[i] for i in torch.randperm(len(batches)).tolist()]


def dropped(x, model, training):
    """Dropout of x [T,B,I]; variational: one mask for all steps."""
    if not model["variational"]: return F.dropout(x, model["dropout"], training)
    return x * F.dropout(torch.ones_like(x[:1]), model["dropout"], training)


def run_packed(layer, x, lengths):
    y, state = layer(pack_padded_sequence(x, lengths, enforce_sorted=False))
    return pad_packed_sequence(y, total_length=x.shape[0])[0], state


class Rows:
    """Rows with lengths by split; a subclass gives batch_loss(rows) and sums(rows)."""
    def begin(self, rows, lengths, config):
        self.smoothing, self.batch = config["train"]["label_smoothing"], config["train"]["batch"]
        assert config["train"]["batch_tokens"] == 0, "train.batch_tokens is not supported here"
        splits = random_splits(len(rows), config["data"])
        self.parts = {split: [rows[i] for i in part] for split, part in splits.items()}
        self.lengths = [lengths(row) for row in self.parts["train"]]
        self.n_batches = math.ceil(len(self.lengths) / self.batch)

    def loss(self, update):
        at = update % self.n_batches
        if at == 0: self.batches = shuffled_batches(self.lengths, self.batch)
        return self.batch_loss([self.parts["train"][row] for row in self.batches[at]])

    def slices(self, split):
        rows = self.parts[split]
        return [rows[i:i + self.batch] for i in range(0, len(rows), self.batch)]


def f1_scores(truth, predicted, outside):
    """Micro and macro F1 without the outside label."""
    hits, both = collections.Counter(), collections.Counter()
    for t, p in zip(truth, predicted):
        if t != outside: both[t] += 1
        if p != outside: both[p] += 1
        if t == p != outside: hits[t] += 2
    return dict(f1_micro=sum(hits.values()) / sum(both.values()),
                f1_macro=sum(hits[k] / both[k] for k in both) / len(both))


class Label(Rows):
    def __init__(self, config, path):
        data, model = config["data"], config["model"]
        assert model["output"] == "softmax", "only model.output = softmax is supported here"
        blocks = [b.splitlines() for b in path.read_text().split("\n\n") if b.strip()]
        rows = [[line.split("\t") for line in block if line] for block in blocks]
        self.begin(rows, lambda row: [len(row)], config)
        words = collections.Counter(token for row in self.parts["train"] for token, _ in row)
        self.words = vocabulary(words, data["min_count"], data["vocabulary"])
        self.labels = vocabulary(collections.Counter(label for row in rows for _, label in row), 1, 1 << 20)
        self.outside, self.model = self.labels.get(data["outside"], -1), model
        width = model["hidden"] * (2 if model["bidirectional"] else 1)
        self.net = nn.ModuleDict(dict(embedding=nn.Embedding(len(self.words) + 1, model["embedding"]),
                                      recurrent=recurrent(model, model["embedding"]),
                                      output=nn.Linear(width, len(self.labels))))

    def logits(self, rows):
        ids = pad_sequence([torch.tensor([self.words.get(t, len(self.words)) for t, _ in row]) for row in rows])
        labels = pad_sequence([torch.tensor([self.labels[l] for _, l in row]) for row in rows], padding_value=PADDING)
        lengths, training = torch.tensor([len(row) for row in rows]), self.net.training
        x = dropped(self.net["embedding"](ids), self.model, training)
        y = dropped(run_packed(self.net["recurrent"], x, lengths)[0], self.model, training)
        return self.net["output"](y).flatten(0, 1), labels.flatten()

    def batch_loss(self, rows):
        return F.cross_entropy(*self.logits(rows), ignore_index=PADDING, label_smoothing=self.smoothing)

    def evaluate(self, split):
        total, truth, predicted = 0.0, [], []
        for rows in self.slices(split):
            logits, labels = self.logits(rows)
            total += F.cross_entropy(logits, labels, ignore_index=PADDING, reduction="sum").item()
            real = labels != PADDING
            truth += labels[real].tolist()
            predicted += logits.argmax(1)[real].tolist()
        hits = sum(t == p for t, p in zip(truth, predicted))
        return dict(loss=total / len(truth), accuracy=hits / len(truth)) | f1_scores(truth, predicted, self.outside)


def sentences_of(text):
    """Words in lower case without the marks around them; a word with . ! or ? behind it ends a sentence."""
    document = [[]]
    for part in text.split():
        word = re.search(r"[A-Za-z0-9\x80-\U0010ffff](.*[A-Za-z0-9\x80-\U0010ffff])?", part)
        if word: document[-1].append(word[0].lower())
        if re.search(r"[.!?]", part[word.end():] if word else part) and document[-1]: document.append([])
    return [sentence for sentence in document if sentence]


class AttentionPooling(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention, self.score = nn.Linear(width, width), nn.Linear(width, 1, bias=False)

    def forward(self, y, lengths):
        live = torch.arange(y.shape[0])[:, None, None] < lengths[None, :, None]
        score = self.score(torch.tanh(self.attention(y))).masked_fill(~live, -1e30)
        return (torch.softmax(score, 0) * y).sum(0)


class Document(Rows):
    def __init__(self, config, path):
        data, self.model = config["data"], config["model"]
        assert self.model["pooling"] == "attention", "only model.pooling = attention is supported here"
        rows = [line.split("\t", 1) for line in path.read_text().splitlines() if line.strip()]
        labels = sorted({label for label, _ in rows})
        rows = [(labels.index(label), sentences_of(text)) for label, text in rows]
        self.begin(rows, lambda row: [len(row[1]), max(map(len, row[1]))], config)
        counts = collections.Counter(w for _, document in self.parts["train"] for s in document for w in s)
        self.words = vocabulary(counts, data["min_count"], data["vocabulary"])
        width = self.model["hidden"] * (2 if self.model["bidirectional"] else 1)
        self.net = nn.ModuleDict(dict(embedding=nn.Embedding(len(self.words) + 1, self.model["embedding"]),
                                      words=recurrent(self.model, self.model["embedding"]),
                                      word_pooling=AttentionPooling(width), sentences=recurrent(self.model, width),
                                      sentence_pooling=AttentionPooling(width), output=nn.Linear(width, len(labels))))

    def logits(self, rows):
        net, training = self.net, self.net.training
        sentences = [torch.tensor([self.words.get(w, len(self.words)) for w in s]) for _, d in rows for s in d]
        n_words, n_sentences = torch.tensor([len(s) for s in sentences]), torch.tensor([len(d) for _, d in rows])
        x = dropped(net["embedding"](pad_sequence(sentences)), self.model, training)
        vectors = net["word_pooling"](run_packed(net["words"], x, n_words)[0], n_words)
        x = dropped(pad_sequence(vectors.split(n_sentences.tolist())), self.model, training)      # [S,B,D*H]
        documents = net["sentence_pooling"](run_packed(net["sentences"], x, n_sentences)[0], n_sentences)
        return net["output"](F.dropout(documents, self.model["dropout"], training)), torch.tensor([k for k, _ in rows])

    def batch_loss(self, rows): return F.cross_entropy(*self.logits(rows), label_smoothing=self.smoothing)

    def evaluate(self, split):
        total, hits, count = 0.0, 0, len(self.parts[split])
        for rows in self.slices(split):
            logits, labels = self.logits(rows)
            total += F.cross_entropy(logits, labels, reduction="sum").item()
            hits += (logits.argmax(1) == labels).sum().item()
        return dict(loss=total / count, accuracy=hits / count)


class Translate(Rows):
    """Encoder, and a decoder whose recurrent layers read the target; additive attention comes after them."""
    def __init__(self, config, path):
        self.model = model = config["model"]
        assert config["data"]["tokens"] == "characters" and model["attention"] == "additive" and not model["tied"]
        assert config["train"]["scheduled_sampling"] == 0 and model["cell"] != "lstm" and model["layers"] == 1
        rows = [tuple(line.split("\t", 1)) for line in path.read_text().splitlines() if line.strip()]
        self.begin(rows, lambda row: [len(row[0]), len(row[1]) + 1], config)
        characters = lambda k: {c: i for i, c in enumerate(sorted({c for row in self.parts["train"] for c in row[k]}))}
        self.source, self.target = characters(0), characters(1)
        self.end = len(self.target)
        self.names = list(self.target)
        E, H, V = model["embedding"], model["hidden"], self.end + 1
        M = H * (2 if model["bidirectional"] else 1)
        self.net = nn.ModuleDict(dict(
            source=nn.Embedding(len(self.source), E), target=nn.Embedding(V, E), encoder=recurrent(model, E),
            decoder=recurrent(model, E, bidirectional=False), bridge=nn.Linear(M, H), query=nn.Linear(H, H, bias=False),
            key=nn.Linear(M, H, bias=False), score=nn.Linear(H, 1, bias=False), combine=nn.Linear(M + H, H),
            output=nn.Linear(H, V)))
        for name in ("query", "key"): nn.init.xavier_uniform_(self.net[name].weight)
        nn.init.normal_(self.net["score"].weight, std=0.1)

    def encode(self, sources):
        ids = [torch.tensor([self.source.get(c, 0) for c in source]) for source in sources]
        lengths = torch.tensor([len(i) for i in ids])
        x = dropped(self.net["source"](pad_sequence(ids)), self.model, self.net.training)
        y, state = run_packed(self.net["encoder"], x, lengths)                                    # [S,B,M], [D,B,H]
        state = torch.tanh(self.net["bridge"](torch.cat(list(state), 1)))[None]
        mask = torch.arange(y.shape[0])[None, None, :] < lengths[:, None, None]                   # [B,1,S]
        return y.transpose(0, 1), state, mask

    def decode(self, ids, state, memory, mask):
        """ids [T,B] -> logits [B,T,V]"""
        net, training = self.net, self.net.training
        y, state = net["decoder"](dropped(net["target"](ids), self.model, training), state)
        query = y.transpose(0, 1)                                                                 # [B,T,H]
        hidden = torch.tanh(net["query"](query)[:, :, None] + net["key"](memory)[:, None])
        weights = torch.softmax(net["score"](hidden).squeeze(3).masked_fill(~mask, -1e30), 2)     # [B,T,S]
        combined = torch.tanh(net["combine"](torch.cat([weights @ memory, query], 2)))
        return net["output"](F.dropout(combined, self.model["dropout"], training)), state

    def logits(self, rows):
        memory, state, mask = self.encode([source for source, _ in rows])
        ids = [torch.tensor([self.target.get(c, 0) for c in target]) for _, target in rows]
        end = torch.tensor([self.end])
        before = pad_sequence([torch.cat([end, i]) for i in ids], padding_value=self.end)
        labels = pad_sequence([torch.cat([i, end]) for i in ids], batch_first=True, padding_value=PADDING)
        return self.decode(before, state, memory, mask)[0].flatten(0, 1), labels.flatten()

    def batch_loss(self, rows):
        return F.cross_entropy(*self.logits(rows), ignore_index=PADDING, label_smoothing=self.smoothing)

    def written(self, sources):
        """The likeliest token at each step, for at most 2 * S + 20 tokens."""
        memory, state, mask = self.encode(sources)
        ids, done = torch.full((1, len(sources)), self.end), torch.zeros(len(sources), dtype=torch.bool)
        texts = [""] * len(sources)
        for step in range(2 * max(map(len, sources)) + 20):
            logits, state = self.decode(ids, state, memory, mask)
            ids = logits[:, 0].argmax(1)[None]
            done |= ids[0] == self.end
            if done.all(): break
            for b, token in enumerate(ids[0].tolist()):
                if not done[b] and step < 2 * len(sources[b]) + 20: texts[b] += self.names[token]
        return texts

    def evaluate(self, split):
        total, count, hits, exact = 0.0, 0, 0, 0
        for rows in self.slices(split):
            logits, labels = self.logits(rows)
            real = labels != PADDING
            total += F.cross_entropy(logits, labels, ignore_index=PADDING, reduction="sum").item()
            count += real.sum().item()
            hits += (logits.argmax(1) == labels)[real].sum().item()
            if split == "test":
                exact += sum(w == target for w, (_, target) in zip(self.written([s for s, _ in rows]), rows))
        result = dict(loss=total / count, token_accuracy=hits / count)
        return result | (dict(exact_match=exact / len(self.parts[split])) if split == "test" else {})
