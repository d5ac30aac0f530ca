#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""new, train, eval and generate for every kind of task. usage: check_training.py UNROLL"""
import csv
import gzip
import json
import tempfile

from command import call, ok, refused, run_checks
from small_runs import FILES, KINDS, SMALL, config


def whole_flow(folder):
    """new, train, eval and inspect work for every kind of task"""
    for kind in KINDS:
        work = folder / kind
        work.mkdir()
        run = work / "run"
        result = ok("train", config(work, kind), "--out", run, "--max-updates", 20, "--json", *SMALL)
        assert result.json()["updates"] == 20 and "validation update=20 " in result.err and "\033" not in result.err
        assert sorted(p.name for p in run.iterdir()) == sorted([*FILES, "config.toml", "log.txt"])
        assert "validation update=20" in (run / "log.txt").read_text()
        assert all(json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
        report = ok("eval", run, "--json").json()
        assert report["loss"] > 0 and report["metrics"] and report["baselines"], report
        again = ok("eval", work / "demo/config.toml", "--weights", run / "best.safetensors", "--set", "model.hidden=8",
                   "--set", "train.batch=4", "--json").json()
        assert again["metrics"] == report["metrics"], (again, report)
        assert ok("inspect", run, "--json").json()["tensors"]
        if kind in ("language-model", "forecast"):  # whose steps are of one number
            (work / "steps").write_text("1\n2\n3\n")
            assert len(ok("stream", run, "--input", work / "steps").out.splitlines()) == 3
        refused(2, "train", run / "config.toml", "--out", run, says=["not empty", "--resume"])
        refused(2, "new", kind, work / "demo", says=["exists"])


def sampling(folder):
    """generate is a function of the seed and refuses what is no language model"""
    run = folder / "run"
    ok("train", config(folder, "language-model"), "--out", run, "--max-updates", 20, *SMALL)
    texts = [ok("generate", run, "--length", 50, "--seed", seed, "--prompt", "the ").out for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2] and len(texts[0]) >= 50
    refused(3, "generate", folder, says=["not a run folder"])
    ok("train", config(folder / "other", "classify"), "--out", folder / "c", "--max-updates", 5, *SMALL)
    assert call("generate", folder / "c").code in (2, 3)


def labeling(folder):
    """predict gives every token of a line a label, in the form of the training file or as JSON"""
    run = folder / "run"
    ok("train", config(folder, "label"), "--out", run, "--max-updates", 60, "--set", "model.hidden=16")
    assert "bidirectional = true" in (run / "config.toml").read_text(), "the kind's default"
    (folder / "lines").write_text("the sea again\n\nmy sister\n")
    blocks = ok("predict", run, "--input", folder / "lines").out.split("\n\n")
    assert [line.split("\t")[0] for line in blocks[0].split("\n")] == ["the", "sea", "again"], blocks
    assert all(line.split("\t")[1] in ("who", "does", "what", "when") for line in blocks[0].split("\n")), blocks
    rows = [json.loads(line) for line in ok("predict", run, "--input", folder / "lines", "--json").out.splitlines()]
    assert [row["tokens"] for row in rows] == [["the", "sea", "again"], [], ["my", "sister"]], rows
    assert [len(row["labels"]) for row in rows] == [3, 0, 2]
    (folder / "lines").write_text("the sea\n" + "word " * 5000 + "\n")
    refused(3, "predict", run, "--input", folder / "lines", says=["lines:2", "4096"])
    (folder / "demo" / "bad.tsv").write_text("a\tx\n\nb\n")
    refused(3, "train", folder / "demo/config.toml", "--out", folder / "d", "--set", "data.path=bad.tsv",
            says=["bad.tsv", "line 3"])


def summarizing(folder):
    """the sample of `new summarize` is learned: names that no vocabulary has are copied"""
    run, demo, lines = folder / "run", folder / "demo", folder / "lines"
    ok("train", config(folder, "summarize"), "--out", run)
    report = ok("eval", run, "--json", "--beam", 2).json()
    assert {"perplexity", "p_gen", "exact_match", "rouge1", "rouge2", "rougeL",
            "repeated_trigrams"} == report["metrics"].keys(), report
    assert report["metrics"]["rouge1"] > 0.9 > report["baselines"]["first_sentence"]["rouge1"], report
    assert {"exact_match", "rouge1", "rouge2", "rougeL"} == report["intervals"].keys(), report
    for name, interval in report["intervals"].items():
        assert interval["low"] <= report["metrics"][name] <= interval["high"], (name, report)
    assert "95 % confidence intervals" in ok("eval", run).out
    assert "first_words" in report["baselines"], report

    def predicted(text, *options):
        lines.write_text(text)
        return ok("predict", run, "--input", lines, *options)

    text, summary = "on monday zelinda painted the tower in uppsalia . bob was not there .", "zelinda painted the tower"
    assert predicted(text).out == f"{summary} in uppsalia\n"
    rows = [json.loads(line) for line in predicted(f"{text}\n\n", "--json").out.splitlines()]
    assert [row["source"] for row in rows] == [text, ""] and rows[1]["summary"] == "", rows
    assert rows[0]["log_probability"] < 0 and rows[1]["log_probability"] is None, rows
    predicted(text, "--svg", folder / "map.svg")
    assert "p_gen" in (folder / "map.svg").read_text()
    best_texts(folder, run, lines, text)
    said = predicted(" ".join(["word"] * 500)).err
    assert "1 source is cut at data.source_tokens: 100 tokens not read" in said, said
    refused(2, "predict", run, "--input", lines, "--min-length", 9, "--max-length", 3, says=["min_length"])
    lines.write_bytes(b"bad \xff text\n" + text.encode() + b"\n")
    refused(3, "predict", run, "--input", lines, says=["not UTF-8 at byte 5"])


def best_texts(folder, run, lines, text):
    """several texts for each line, with scores; a page of attention; a column of a table"""
    lines.write_text(f"{text}\n\n")

    def predicted(*options):
        return ok("predict", run, "--input", lines, "--beam", 3, *options)

    objects = [json.loads(line) for line in predicted("--nbest", 2, "--scores", "--json").out.splitlines()]
    summaries = objects[0]["summaries"]
    assert len(summaries) == 2 and summaries[0]["score"] >= summaries[1]["score"], objects
    assert {key: objects[0][key] for key in summaries[0]} == summaries[0], objects
    assert objects[1]["summaries"] == [] and objects[1]["summary"] == "", objects
    rows = list(csv.DictReader(predicted("--nbest", 2, "--scores", "--format", "tsv").out.splitlines(),
                               delimiter="\t"))
    assert [row["rank"] for row in rows] == ["1", "2", ""], rows
    assert [row["summary"] for row in rows] == [s["summary"] for s in summaries] + [""], rows
    assert abs(float(rows[0]["score"]) - summaries[0]["score"]) < 1e-4, rows
    plain = predicted("--nbest", 2).out.split("\n")
    assert plain == [s["summary"] for s in summaries] + ["", "", "", ""], plain  # an empty line ends each list
    scored = predicted("--scores").out.splitlines()[0].split("\t")
    assert scored[0] == summaries[0]["summary"] and abs(float(scored[1]) - summaries[0]["score"]) < 1e-4, scored
    refused(2, "predict", run, "--input", lines, "--nbest", 2, says=["beam of 1", "--beam 2"])
    predicted("--explain-attention", folder / "map.html")
    page = (folder / "map.html").read_text()
    assert page.count("<section") == 1 and "p_gen" in page and "data-weight" in page and "uppsalia" in page, page
    table = folder / "table"
    answer = predicted().out.splitlines()[0]
    for content, column in ((f"id\tbody\n1\t{text}\n", "body"), (f"id,body\n1,{text}\n", "body"),
                            (f"1\t{text}\n", "2"), (json.dumps({"id": 1, "body": text}) + "\n", "body")):
        table.write_text(content)
        assert ok("predict", run, "--input", table, "--beam", 3, "--column", column).out == answer + "\n", content
    table.write_text(f"id\tbody\n1\t{text}\n2\n")
    refused(3, "predict", run, "--input", table, "--column", "body", says=["table:3", "1 cell"])
    refused(3, "predict", run, "--input", table, "--column", "text", says=["line 1", "no column 'text'"])


def packed_summaries(folder):
    """a gzip file is read, and one that is cut short is refused"""
    demo = config(folder, "summarize").parent
    packed = gzip.compress((demo / "reports.tsv").read_bytes())
    (demo / "whole.tsv.gz").write_bytes(packed)
    (demo / "short.tsv.gz").write_bytes(packed[:len(packed) // 2])
    assert "can be copied" in ok("data", "check", demo / "config.toml", "--set", "data.path=whole.tsv.gz").out
    refused(3, "train", demo / "config.toml", "--out", folder / "run", "--set", "data.path=short.tsv.gz",
            says=["short.tsv.gz"])
    pairs = [line.split("\t") for line in (demo / "reports.tsv").read_text().splitlines()]
    with gzip.open(demo / "lines.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"id": n, "title": summary, "body": text}) + "\n"
                        for n, (text, summary) in enumerate(pairs))
    run = folder / "json"
    said = ok("train", demo / "config.toml", "--out", run, "--set", "data.path=lines.jsonl.gz", "--max-updates", 2).err
    assert f"{len(pairs)} rows, JSON lines, members body, title" in said, said


def copying(folder):
    """translate with a pointer writes names that no vocabulary has; its pictures have p_gen; it has no stream"""
    run, lines = folder / "run", folder / "lines"
    demo = config(folder, "translate").parent
    names = ["".join("abcde"[(7919 * n + 13) // 5 ** k % 5] for k in range(6)) for n in range(800)]
    (demo / "names.tsv").write_text("".join(f"the {one} of {other} came\t{one} kam\n"
                                            for one, other in zip(names[::2], names[1::2])))
    options = ["data.path=names.tsv", "data.tokens=words", "model.hidden=24", "train.batch=8", "train.lr=0.01"]
    options = [part for option in options for part in ("--set", option)]
    ok("train", demo / "config.toml", "--out", run, "--max-updates", 150, *options, "--set", "model.pointer=true")
    assert ok("eval", run, "--json").json()["metrics"].keys() >= {"token_accuracy", "p_gen", "exact_match"}
    lines.write_text("the rain of spain came\n\n")
    for beam in (1, 3):
        assert ok("predict", run, "--input", lines, "--beam", beam).out == "rain kam\n\n"
    ok("predict", run, "--input", lines, "--svg", folder / "map.svg", "--explain-attention", folder / "map.html")
    for picture in ("map.svg", "map.html"):
        assert "p_gen" in (folder / picture).read_text() and "spain" in (folder / picture).read_text(), picture
    refused(3, "stream", run, "--input", lines, says=["no stream for task 'translate'"])
    refused(2, "train", demo / "config.toml", "--out", folder / "no", "--set", "model.coverage=true",
            says=["coverage needs additive attention", "input_feeding = true"])


def translating(folder):
    """predict writes targets, greedily or by beam; eval scores them; generate takes top-k and top-p"""
    run = folder / "run"
    ok("train", config(folder, "translate"), "--out", run, "--max-updates", 40, "--set", "model.hidden=16")
    (folder / "lines").write_text("365\n\n7\n")
    greedy = ok("predict", run, "--input", folder / "lines").out
    assert greedy == ok("predict", run, "--input", folder / "lines", "--beam", 1, "--length-penalty", 2).out
    assert greedy.count("\n") == 3 and greedy.split("\n")[1] == ""
    answers = ok("predict", run, "--input", folder / "lines", "--json", "--beam", 3).out.splitlines()
    rows = [json.loads(line) for line in answers]
    assert [row["source"] for row in rows] == ["365", "", "7"], rows
    report = ok("eval", run, "--json", "--split", "validation").json()
    wanted = {"token_accuracy", "perplexity", "exact_match", "bleu", "chrf", "rouge1", "rouge2", "rougeL"}
    assert wanted == report["metrics"].keys(), report
    assert "source_as_it_is" in report["baselines"], report
    swap = {"a": "two", "b": "one", "c": "b"}
    lines = [" ".join("abc"[n // 3 ** k % 3] for k in range(1 + n % 4)) for n in range(80)]
    text = "".join(f"{line}\t{' '.join(swap[word] for word in line.split())}\n" for line in lines)
    (folder / "demo/words.tsv").write_text(text + "a\tnot as many words\n" * 3)
    words = ["--set", "data.path=words.tsv", "--set", "data.split_seed=4"]
    ok("train", folder / "demo/config.toml", "--out", folder / "words", "--max-updates", 2, *words, *SMALL)
    replaced = ok("eval", folder / "words", "--json").json()["baselines"]["word_by_word"]
    assert replaced["rougeL"] > 0.95 and replaced["exact_match"] > 0.8, replaced
    refused(2, "predict", run, "--beam", 0)
    ok("train", config(folder / "text", "language-model", "--set", "data.tokens=bpe", "--set", "data.vocabulary=300"),
       "--out", folder / "lm", "--max-updates", 5, *SMALL)
    one = ok("generate", folder / "lm", "--length", 20, "--top-k", 1, "--seed", 1).out
    assert one == ok("generate", folder / "lm", "--length", 20, "--temperature", 0, "--seed", 2).out
    assert ok("generate", folder / "lm", "--length", 20, "--top-p", 0.5).out
    refused(3, "train", config(folder / "l", "label"), "--out", folder / "d", "--set", "data.path=none", says=["none"])


def documents(folder):
    """a document task trains, beats the most frequent label, and predict gives each line its label"""
    run = folder / "run"
    ok("train", config(folder, "document"), "--out", run, "--max-updates", 150)
    result = ok("eval", run, "--json").json()
    assert result["metrics"]["accuracy"] > result["baselines"]["most_frequent"]["accuracy"] + 0.2, result
    (folder / "lines.txt").write_text("The wind sees a lamp today. My sister follows the sea.\n\n")
    labels = ok("predict", run, "--input", folder / "lines.txt").out.split("\n")
    subjects = ("farmer", "sailor", "king", "sister", "wind", "bird")
    assert labels[0].split("\t")[0] in subjects and labels[1] == "", labels


def several_series(folder):
    """several columns are forecast together: metrics of each, a stream of all; columns that do not fit are refused"""
    rows = "".join(f"{t},{t % 7},{100 + t % 5},w\n" for t in range(300))
    source = config(folder, "forecast", "--set", "data.columns=b,a", "--set", "data.horizon=3",
                    "--set", "data.period=52")
    assert 'columns = ["b", "a"]' in source.read_text()
    (folder / "demo/series.csv").write_text("day,a,b,word\n" + rows)
    run = folder / "run"
    ok("train", source, "--out", run, "--max-updates", 20, *SMALL)
    report = ok("eval", run, "--json").json()
    for metrics in (report["metrics"], report["baselines"]["linear_ar"]):
        assert {"mae", "mae.a", "mae.b", "rmse.a", "mase.b"} <= metrics.keys(), report
    (folder / "steps").write_text("101 1\n102,2\n")
    (folder / "few").write_text("101\n")
    lines = ok("stream", run, "--input", folder / "steps").out.splitlines()
    assert [len(line.split(",")) for line in lines] == [6, 6], lines
    assert 80 < float(lines[1].split(",")[0]) < 120 and -5 < float(lines[1].split(",")[1]) < 12, lines
    refused(3, "stream", run, "--input", folder / "few", says=["a step takes 2 numbers; the line has 1"])
    checked = ok("data", "check", source, "--json").json()["figures"]
    assert checked["highest of a"] == 6 and checked["highest of b"] == 104, checked
    assert "f32[9,32,2]" in ok("inspect", source, "--set", "data.window=9").out
    for columns, says in [("a,c", "Columns: day, a, b, word"), ("a,a", "'a' twice"), ("a,word", "line 2, column 4")]:
        bad = call("train", source, "--out", folder / "bad", "--set", f"data.columns={columns}")
        assert bad.code in (2, 3) and says in "\n".join(bad.messages()), (columns, bad.err)
        assert not (folder / "bad").exists(), columns
    refused(3, "train", source, "--out", folder / "bad", "--set", "data.column=a",
            says=["data.column is set too", "Keep one"])


def launchers(folder):
    """the variables of a launcher: one process trains without MPI, several need its library, which the message names"""
    path = config(folder)
    for size in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"):
        ok("train", path, "--out", folder / size, "--max-updates", 1, *SMALL, **{size: "1"})
        rank = size.replace("SIZE", "RANK")
        for given in ({size: "2"}, {size: "2", rank: "0"}, {rank: "0"}):
            result = call("train", path, "--out", folder / "more", *SMALL, UNROLL_MPI_LIBRARY="/missing.so", **given)
            said = "\n".join(result.messages())
            package = "libmpich12" if size == "PMI_SIZE" else "libopenmpi3"
            for text in (f"{size}=", "/missing.so", package, "UNROLL_MPI_LIBRARY", f"env -u {size} -u {rank} unroll"):
                assert text in said, (given, text, said)
            assert result.code == 5 and not (folder / "more").exists(), (given, result.code, said)
    alone = call("train", path, "--out", folder / "more", *SMALL, PMI_SIZE="2", PMI_RANK="0")
    said = "\n".join(alone.messages())
    assert alone.code == 5 and ("cannot be loaded" in said or "sees this process alone" in said), (alone.code, said)


def precision_check(folder):
    """--check-precision shows both curves; its exit code is 9 when they are further apart than the tolerance"""
    source = config(folder)
    bf16 = ["--set", "train.precision=bf16", *SMALL]
    near = ok("train", source, "--check-precision", 6, "--json", *bf16).json()
    assert near["agrees"] and len(near["smoothed_losses"]) == 6 and 0 < near["largest_difference"] < 0.01, near
    assert near["smoothed_losses"][-1].keys() == {"update", "f32", "bf16"}, near
    far = call("train", source, "--check-precision", 6, "--tolerance", near["largest_difference"] / 2, "--json", *bf16)
    assert far.code == 9 and not far.json()["agrees"], far.out
    assert "smoothed losses" in call("train", source, "--check-precision", 60, *bf16).out
    refused(2, "train", source, "--check-precision", 6, *SMALL, says=["f32"])


with tempfile.TemporaryDirectory() as work:
    run_checks([whole_flow, sampling, labeling, translating, copying, summarizing, packed_summaries, documents,
                several_series, precision_check, launchers], work)
