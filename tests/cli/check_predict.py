#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unroll predict and generate, from outside: every task answered, formats, batches, kills, memory.

Usage: check_predict.py UNROLL [--address-sanitizer]
"""
import csv
import datetime
import gzip
import io
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time

from command import UNROLL, Result, ok, refused, run_checks

SMALL = ["--set", "model.hidden=8", "--set", "train.validate_every=1000"]


def config(folder, kind, *more):
    ok("new", kind, folder / "demo", *more)
    return folder / "demo/config.toml"


def trained(folder, kind, *more, updates=20):
    ok("train", config(folder / kind, kind), "--out", folder / kind / "run", "--max-updates", updates, *SMALL, *more)
    return folder / kind / "run"


def fed(text, *arguments, code=0):
    done = subprocess.run([UNROLL, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    done.stderr = "\n".join(Result(done.returncode, done.stdout, done.stderr).messages())
    return done


def table(text, separator=","):
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=separator))


def words(folder):
    """label: text, csv, tsv and jsonl hold the same tokens, labels and probabilities; unknown and empty ones count"""
    run = trained(folder, "label")
    lines = 'the sea again\n\nmy "odd, word" sister\n   \nzzz\n'
    plain = fed(lines, "predict", run)
    assert "2 empty lines" in plain.stderr, plain.stderr
    assert " of 8 words unknown (" in plain.stderr, plain.stderr
    objects = [json.loads(line) for line in fed(lines, "predict", run, "--json").stdout.splitlines()]
    assert [len(o["tokens"]) for o in objects] == [3, 0, 4, 0, 1], objects
    for separator, name in ((",", "csv"), ("\t", "tsv")):
        rows = table(fed(lines, "predict", run, "--format", name).stdout, separator)
        assert [r["line"] for r in rows] == ["1"] * 3 + ["2"] + ["3"] * 4 + ["4", "5"], rows
        assert [r["token"] for r in rows if r["token"]] == sum((o["tokens"] for o in objects), []), rows
        assert [r["label"] for r in rows if r["label"]] == sum((o["labels"] for o in objects), []), rows
        found = [float(r["probability"]) for r in rows if r["probability"]]
        assert found == sum((o["probabilities"] for o in objects), []) and all(0 < p <= 1 for p in found), found
    as_text = plain.stdout.split("\n")
    assert as_text[0] == "the\t" + objects[0]["labels"][0] and as_text[3] == "" and as_text[4] == "", as_text


def documents(folder):
    """document: labels by probability; what cannot be read is an empty answer with its reason, and ends with code 3"""
    run = trained(folder, "document")
    lines = "The wind sees a lamp.\n\nMy sister, \"she\" follows.\n"
    objects = [json.loads(line) for line in fed(lines, "predict", run, "--json", "--top-k", 3).stdout.splitlines()]
    assert [o["text"] for o in objects] == lines.splitlines(), objects
    top = objects[0]["top"]
    assert len(top) == 3 and top[0]["label"] == objects[0]["label"] and objects[1]["label"] is None, objects
    assert top[0]["probability"] >= top[1]["probability"] >= top[2]["probability"] > 0, top
    rows = table(fed(lines, "predict", run, "--format", "csv", "--top-k", 2).stdout)
    assert list(rows[0]) == ["label", "probability", "label_2", "probability_2"] and len(rows) == 3, rows
    assert rows[0]["label_2"] == top[1]["label"] and rows[1]["label"] == "", rows
    assert fed(lines, "predict", run).stdout.split("\n")[0] == f'{top[0]["label"]}\t{top[0]["probability"]:g}'
    long_lines = "good.\n" + "a " * 300 + "\ngood again.\n" + "b " * 300 + "\n"
    bad = fed(long_lines, "predict", run, "--json", code=3)
    answers = [json.loads(line) for line in bad.stdout.splitlines()]
    assert [o["label"] is None for o in answers] == [False, True, False, True], answers
    assert "256" in answers[1]["error"] and "error" not in answers[2], answers
    assert "stdin:2" in bad.stderr and "stdin:4" in bad.stderr and "2 lines" in bad.stderr, bad.stderr


def targets(folder):
    """translate: targets alone as text, with the source and the log probability in tables and objects"""
    run = trained(folder, "translate")
    lines = "365\n\n7\n1,2\n"
    plain = fed(lines, "predict", run).stdout.split("\n")
    objects = [json.loads(line) for line in fed(lines, "predict", run, "--format", "jsonl").stdout.splitlines()]
    assert [o["target"] for o in objects] == plain[:4] and [o["source"] for o in objects] == lines.splitlines()
    assert objects[0]["log_probability"] < 0 and objects[1]["log_probability"] is None, objects
    rows = table(fed(lines, "predict", run, "--format", "csv").stdout)
    assert [r["source"] for r in rows] == lines.splitlines() and rows[3]["target"] == plain[3], rows
    one_by_one = [fed(line + "\n", "predict", run).stdout for line in ("365", "", "7", "1,2")]
    assert "".join(one_by_one) == "\n".join(plain), "a batch gives what single lines give"


def scores(folder):
    """language-model: predict scores each line; generate echoes the prompt and names characters it does not know"""
    run = trained(folder, "language-model")
    rows = table(fed("the sea\n\n\u00e9t\n", "predict", run).stdout, "\t")
    assert [r["tokens"] for r in rows] == ["7", "0", "2"] and rows[2]["unknown"] == "1", rows
    assert rows[1]["log_probability"] == "" and float(rows[0]["perplexity"]) > 1, rows
    scored = fed("the sea\n", "predict", run, "--json")
    o = json.loads(scored.stdout)
    assert abs(2 ** o["bits_per_character"] - o["perplexity"]) < 1e-3 * o["perplexity"], o
    assert "unroll generate" in scored.stderr, scored.stderr
    same = ["--length", 30, "--seed", 3, "--prompt", "the \u00e9\u00df\u00e9"]
    plain, echoed = ok("generate", run, *same), ok("generate", run, *same, "--echo")
    assert echoed.out == "the \u00e9\u00df\u00e9" + plain.out and 'lacks "\u00e9", "\u00df"' in plain.err, plain.err
    assert ok("generate", run, *same, "--json").json()["unknown"] == ["\u00e9", "\u00df"]
    assert "lacks" not in ok("generate", run, "--length", 5).err


def classes(folder):
    """classify: predict and eval have the same accuracy on a file; columns by name, labels as they are written"""
    kinds = {"rose": 1, r"lily\near": 3, "iris, blue": 5}

    def flowers(n, name, columns=("length", "width", "kind")):
        path = folder / name
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            for i in range(n):
                kind = list(kinds)[i * 7 % 3]
                length, width = kinds[kind] + i * 37 % 11 / 4, 2 * kinds[kind] - i * 53 % 13 / 3
                row = {"length": length, "width": width, "kind": kind}
                writer.writerow([row[c] for c in columns])
        return path

    flowers(240, "train.csv")
    test = flowers(101, "test.csv")
    ok("new", "classify", folder / "demo", "--data", folder / "train.csv")
    run = folder / "run"
    ok("train", folder / "demo/config.toml", "--out", run, "--max-updates", 40, "--set", f"data.test={test}", "--set",
       "model.bidirectional=true", "--set", "model.pooling=attention", *SMALL)
    evaluated = ok("eval", run, "--json").json()
    accuracy = evaluated["metrics"]["accuracy"]
    assert {c["class"] for c in evaluated["classes"]} == set(kinds), evaluated["classes"]
    done = ok("predict", run, "--input", test, "--top-k", 3, "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    truth = [row["kind"] for row in table(test.read_text())]
    assert [row["row"] for row in rows] == list(range(1, 102)), "answers carry the number of their row"
    right = sum(row["label"] == label for row, label in zip(rows, truth, strict=True))
    assert abs(right / 101 - accuracy) < 1e-6 and 0.4 < accuracy < 1, (right, accuracy)
    assert f"accuracy {right / 101:.4g} on 101 rows with a label" in done.err, done.err
    assert all(abs(sum(t["probability"] for t in row["top"]) - 1) < 1e-4 for row in rows)
    # Columns in another order and without the label: the same answers.
    other = flowers(101, "other.csv", ("width", "length"))
    plain = table(ok("predict", run, "--input", other).out)
    assert [row["label"] for row in plain] == [row["label"] for row in rows] and "iris, blue" in str(plain)
    (folder / "bad.csv").write_text("length,width\n1,2\n1,x\n\n3,4\n")
    bad = fed((folder / "bad.csv").read_text(), "predict", run, code=3)
    assert [(row["row"], bool(row["label"])) for row in table(bad.stdout)] == [("1", True), ("2", False), ("3", True)]
    assert "stdin:3" in bad.stderr and "'x' is not a number" in bad.stderr, bad.stderr
    broken = 'length,width,kind\n1,2,"ro\n\nse"\n3,x,lily\n3,4,"a""\n"\n'
    rows = fed(broken, "predict", run, code=3)
    assert [bool(row["label"]) for row in table(rows.stdout)] == [True, False, True], rows.stdout
    assert "stdin:5" in rows.stderr and "0 on 2 rows with a label" in rows.stderr, rows.stderr
    refused(2, "stream", run, "--input", other, says=["Use `unroll predict`"])
    refused(2, "predict", run, "--input", flowers(9, "few.csv", ("length", "kind")), says=["width", "length, kind"])


def numbers(folder):
    """regress: predict and eval have the same errors on a file, for several targets in units of their own"""
    def boxes(n, name, columns=("a", "b", "c", "area", "price")):
        lines = [",".join(columns)]
        for i in range(n):
            row = {"a": i * 7 % 11, "b": i * 5 % 13, "c": i * 3 % 7}
            row |= {"area": row["a"] * 2 + row["b"], "price": 1000 * row["c"]}
            lines.append(",".join(str(row[c]) for c in columns))
        (folder / name).write_text("\n".join(lines) + "\n")
        return folder / name

    test = boxes(77, "test.csv")
    ok("new", "regress", folder / "demo", "--data", boxes(300, "train.csv"))
    run = folder / "run"
    ok("train", folder / "demo/config.toml", "--out", run, "--max-updates", 60, "--set", f"data.test={test}", "--set",
       "data.targets=area,price", *SMALL)
    report = ok("eval", run, "--json").json()
    done = ok("predict", run, "--input", test, "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    truth = table(test.read_text())
    errors = {name: [abs(row[name] - float(true[name])) for row, true in zip(rows, truth, strict=True)]
              for name in ("area", "price")}
    for name, own in errors.items():
        assert abs(sum(own) / 77 - report["metrics"][f"mae.{name}"]) < 1e-4 * max(own), (name, report["metrics"])
    every = sum(errors.values(), [])
    assert f"mae {sum(every) / len(every):.4g}, " in done.err and "on 77 rows with targets" in done.err, done.err
    assert report["metrics"]["r2"] < 1 and report["baselines"]["mean"]["r2"] == 0, report
    # Columns in another order and without the targets: the same answers.
    other = table(ok("predict", run, "--input", boxes(77, "other.csv", ("c", "a", "b"))).out)
    assert [row["row"] for row in other] == [str(n) for n in range(1, 78)], other[:2]
    assert [float(row["area"]) for row in other] == [row["area"] for row in rows], other[0]
    bad = fed("a,b,c\n1,2,3\n1,x,3\n", "predict", run, code=3)
    assert [bool(row["price"]) for row in table(bad.stdout)] == [True, False], bad.stdout
    assert "stdin:3" in bad.stderr and "'x' is not a number" in bad.stderr, bad.stderr
    refused(2, "predict", run, "--input", test, "--svg", folder / "x.svg", says="unroll eval")
    refused(2, "train", folder / "demo/config.toml", "--out", folder / "x", "--set", "data.targets=d",
            says="area, price")
    stream = fed("1\n2\n3\n", "stream", run, code=2)
    assert "standardizes each column of a row" in stream.stderr, stream.stderr


def forecasts(folder):
    """forecast: dates continue, values are in the data's units and give eval's error; longer horizons feed back"""
    days = [datetime.date(2023, 1, 1) + datetime.timedelta(i) for i in range(200)]
    level = [100 + 0.3 * i + 10 * [0, 1, 3, 1, 0, -2, -3][i % 7] for i in range(200)]

    def series(name, n, left_out=()):
        (folder / name).write_text("day,sales\n" + "".join(f"{days[i]},{level[i]:.3f}\n" for i in range(n)
                                                          if i not in left_out))
        return folder / name

    ok("new", "forecast", folder / "demo", "--data", series("all.csv", 200))
    run = folder / "run"
    ok("train", folder / "demo/config.toml", "--out", run, "--max-updates", 30, "--set", "data.window=14", "--set",
       "data.horizon=3", "--set", "data.period=7", "--set", "data.test=0.2", "--set", "data.difference=first", "--set",
       "data.missing=previous", *SMALL)
    errors = []
    for begin in range(160, 198):
        rows = table(ok("predict", run, "--input", series("part.csv", begin)).out)
        assert [row["day"] for row in rows] == [str(day) for day in days[begin:begin + 3]], rows
        errors += [abs(float(row["sales"]) - level[begin + h]) for h, row in enumerate(rows)]
    mae = ok("eval", run, "--json", "--forecasts", folder / "all-forecasts.csv").json()["metrics"]["mae"]
    rows = table((folder / "all-forecasts.csv").read_text())
    assert len(rows) == 3 * 38 and list(rows[0]) == ["series", "origin", "at", "ahead", "value", "forecast"], rows[0]
    assert (rows[1]["origin"], rows[1]["at"], rows[1]["ahead"]) == (str(days[159]), str(days[161]), "2"), rows[1]
    told = [abs(float(row["value"]) - float(row["forecast"])) for row in rows]
    assert max(abs(ours - theirs) for ours, theirs in zip(told, errors)) < 2e-3, "eval forecasts as predict does"
    assert abs(sum(errors) / len(errors) - mae) < 1e-3 * mae, (sum(errors) / len(errors), mae)
    intervals_are_errors_of_validation(folder, run, series, level)
    longer = ok("predict", run, "--input", folder / "all.csv", "--horizon", 8, "--json")
    rows = [json.loads(line) for line in longer.out.splitlines()]
    assert len(rows) == 8 and rows[7]["day"] == "2023-07-27" and "own forecasts" in longer.err, (rows, longer.err)
    gaps = ok("predict", run, "--input", series("gaps.csv", 200, left_out=(180, 181)), "--output", folder / "o.tsv")
    assert "2 dates are missing" in gaps.err and len(table((folder / "o.tsv").read_text(), "\t")) == 3, gaps.err
    assert fed((folder / "all.csv").read_text(), "predict", run).stdout == ok("predict", run, "--input",
                                                                            folder / "all.csv").out
    refused(3, "predict", run, "--input", series("short.csv", 9), says=["9 rows", "15"])


def intervals_are_errors_of_validation(folder, run, series, level):
    """--level: the forecast and the error that this share of the 18 forecasts of validation did not exceed"""
    errors = [[], [], []]
    for begin in range(140, 158):
        for h, row in enumerate(table(ok("predict", run, "--input", series("part.csv", begin)).out)):
            errors[h].append(abs(float(row["sales"]) - level[begin + h]))
    told = ok("predict", run, "--input", folder / "all.csv", "--level", "50,80,99")
    for row, of_step in zip(table(told.out), errors):
        value = float(row["sales"])
        for percent, rank in ("50", 10), ("80", 16):  # ceil(19 * 0.5) and ceil(19 * 0.8)
            for side, sign in ("lo", -1), ("hi", 1):
                wanted, cell = value + sign * sorted(of_step)[rank - 1], float(row[f"sales-{side}-{percent}"])
                assert abs(cell - wanted) < 1e-3, (row, wanted)
        assert row["sales-lo-99"] == "" and row["sales-hi-99"] == "", row
    assert "no interval at 99 %: the validation set has 18 windows, and 99 are needed" in told.err, told.err
    command = ["predict", run, "--input", folder / "all.csv"]
    row = json.loads(ok(*command, "--level", "80,99", "--json").out.split("\n")[0])
    assert row["sales-lo-80"] < row["sales"] < row["sales-hi-80"] and row["sales-hi-99"] is None, row
    for wrong in ("0", "100", "80,x", "-5"):
        refused(2, *command, f"--level={wrong}", says=["between 0 and 100"])
    ok(*command, "--level", "80,99", "--svg", folder / "levels.svg")
    picture = (folder / "levels.svg").read_text()
    assert picture.count(">80 %<") == 1 and picture.count("dashed") >= 2, "bounds of 80 %, named once"
    refused(2, *command, "--level", 80, "--horizon", 8, says=["3 steps", "data.horizon"])


def output_file(folder):
    """--output is written whole or not at all, in the format of its name; a kill leaves the old file"""
    run = trained(folder, "label")
    (folder / "lines").write_text("the sea again\n" * 3000)
    out = folder / "labels.csv"
    done = ok("predict", run, "--input", folder / "lines", "--output", out)
    whole = out.read_bytes()
    assert done.out == "" and "3000 answers written to" in done.err and len(table(whole.decode())) == 9000, done.err
    assert not list(folder.glob("*.tmp"))
    (folder / "many").write_text("the sea again and again we see it all\n" * 60000)
    old = whole
    for delay in (0.1, 0.2, 0.4, 0.8):
        process = subprocess.Popen([UNROLL, "predict", run, "--input", folder / "many", "--output", out],
                                   stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert out.read_bytes() == old or len(table(out.read_text())) == 540000, "the old or the whole new file"
    (folder / "lines.gz").write_bytes(gzip.compress((folder / "lines").read_bytes()))
    ok("predict", run, "--input", folder / "lines.gz", "--output", folder / "packed.csv")
    assert (folder / "packed.csv").read_bytes() == whole, "a packed file has the answers of the plain one"
    (folder / "cut.gz").write_bytes((folder / "lines.gz").read_bytes()[:-9])
    refused(3, "predict", run, "--input", folder / "cut.gz", says=["ends too early", "gzip -t"])
    refused(3, "predict", run, "--input", folder, says=["Is a directory"])  # a failed read ends the command
    refused(2, "predict", run, "--input", folder / "lines", "--output", folder, says=["is a folder"])
    refused(6, "predict", run, "--input", folder / "lines", "--output", folder / "none/x.csv", says=["none/x.csv"])
    assert ok("predict", run, "--input", folder / "lines", "--output", "/dev/null").out == ""
    assert ok("predict", run, "--input", folder / "lines", "--output", "-", "--json").out.startswith("{")


def memory(folder):
    """100,000 lines take no more memory than 3,000"""
    run = trained(folder, "label")

    def peak(n):
        (folder / "lines").write_text("".join(f"the sea {i} again {'we ' * (i % 30)}\n" for i in range(n)))
        process = subprocess.Popen([UNROLL, "predict", run, "--input", folder / "lines", "--output", folder / "o.tsv"],
                                   stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        return usage.ru_maxrss * 1024

    small, large = peak(3000), peak(100000)
    if "--address-sanitizer" in sys.argv:
        print("skipped: AddressSanitizer keeps freed memory, so the size of the process is not compared")
    else:
        assert large < small + 24 * 2**20, (small, large)
    with (folder / "o.tsv").open() as lines:
        assert sum(1 for _ in lines) == 1 + sum(4 + i % 30 for i in range(100000))


def slow_input(folder):
    """a line of a pipe is answered before the next one comes; on a terminal predict says what it waits for"""
    run = trained(folder, "translate")
    process = subprocess.Popen([UNROLL, "predict", run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL)
    for line in ("365", "12", ""):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        assert process.stdout.readline().endswith("\n")  # hangs where a batch waits for more
    process.stdin.write("without an end of line")
    process.stdin.close()
    assert process.stdout.read().count("\n") == 1 and process.wait(timeout=60) == 0
    ours, theirs = pty.openpty()
    process = subprocess.Popen([UNROLL, "predict", run], stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    os.close(theirs)
    assert "reading lines from the terminal; end with Ctrl-D" in process.stderr.readline()
    os.write(ours, b"365\n")
    assert process.stdout.readline().endswith("\n")
    os.write(ours, b"\x04")
    assert process.wait(timeout=60) == 0
    os.close(ours)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        run_checks([words, documents, targets, scores, classes, numbers, forecasts, output_file, memory, slow_input],
                   work)
