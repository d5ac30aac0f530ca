#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dates that `unroll predict` continues are those of Python's calendar. usage: check_calendars.py UNROLL

10,000 random starts: each is a series of its own in a file in long format, with one model for each step. 2,000 more
are hours of 20 time zones, most of them near a change of the clock.
"""
import calendar
import collections
import csv
import datetime
import io
import pathlib
import random
import tempfile
import zoneinfo

from command import ok, run_checks

DAY, HOUR = datetime.timedelta(1), datetime.timedelta(hours=1)
ROWS, AHEAD = 4, 3
SMALL = [word for setting in ("model.hidden=2", "train.max_updates=1", "run.estimate_seconds=0", "data.window=2",
                              "data.period=1", f"data.horizon={AHEAD}") for word in ("--set", setting)]
RANDOM = random.Random(1)


FIRST, LAST = datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)


def by(step):
    """dates that are a fixed time apart; the series of a file differ by whole steps"""
    def dates(n):
        start = FIRST + RANDOM.randrange((LAST - FIRST) // step) * step
        return [start + i * step for i in range(n)]
    return dates


def by_months(months, day):
    """dates on a day of the month, or on the last one of shorter months"""
    def dates(n):
        start = RANDOM.randrange(1900 * 12 // months, 2100 * 12 // months) * months + day % months
        numbers = [start + i * months for i in range(n)]
        return [datetime.datetime(m // 12, m % 12 + 1, min(day, calendar.monthrange(m // 12, m % 12 + 1)[1]))
                for m in numbers]
    return dates


def by_business_days(n):
    start, dates = FIRST + RANDOM.randrange((LAST - FIRST).days) * DAY, []
    while len(dates) < n:
        if start.weekday() < 5:
            dates.append(start)
        start += DAY
    return dates


def by_trading_hours(n):
    start, dates = FIRST + RANDOM.randrange((LAST - FIRST).days) * DAY, []
    while len(dates) < n + 20:
        if start.weekday() < 5 and 9 <= start.hour <= 16:
            dates.append(start)
        start += HOUR
    begin = RANDOM.randrange(20)
    return dates[begin:begin + n]


# step: how dates are drawn, their format, data.date_format, and the files of 20 series that each make 10,000 starts
KINDS = {
    "hour": (by(HOUR), "%Y-%m-%d %H:%M", "", 40),
    "6 hours": (by(6 * HOUR), "%Y-%m-%dT%H:%M:%S", "", 40),
    "day": (by(DAY), "%d.%m.%Y", "", 60),
    "10 days": (by(10 * DAY), "%d%b%Y", "", 40),
    "week": (by(7 * DAY), "%G-W%V-%u", "", 40),
    "2 weeks": (by(14 * DAY), "%A %Y-%j", "%A %Y-%j", 40),
    "business day": (by_business_days, "%Y-%m-%d", "", 60),
    "trading hour": (by_trading_hours, "%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M %p", 40),
    **{f"month, day {day}": (by_months(1, day), "%Y-%m-%d", "", 3) for day in range(1, 32)},
    **{f"quarter, day {day}": (by_months(3, day), "%d %B %Y", "", 7) for day in (1, 15, 28, 30, 31)},
    **{f"year, day {day}": (by_months(12, day), "%Y/%m/%d", "", 7) for day in (1, 28, 29, 31)},
}


ZONES = ["Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Moscow", "America/New_York", "America/St_Johns",
         "America/Sao_Paulo", "America/Santiago", "America/Havana", "America/Nuuk", "Africa/Cairo", "Africa/Casablanca",
         "Asia/Tehran", "Asia/Kolkata", "Asia/Gaza", "Asia/Amman", "Australia/Sydney", "Australia/Lord_Howe",
         "Pacific/Auckland", "Pacific/Apia"]
FOLDER_OF_ZONES = pathlib.Path("/usr/share/zoneinfo")


def hours_of(zone, n):
    """hours from a random one on, in UTC; three of four are near a change of the clock, if the zone still has any"""
    while True:
        start = datetime.datetime(RANDOM.randrange(1975, 2100), 1, 1, tzinfo=datetime.timezone.utc)
        start += RANDOM.randrange(365) * DAY
        for _ in range(400 if RANDOM.random() < 0.75 else 0):
            if (start + DAY).astimezone(zone).utcoffset() != start.astimezone(zone).utcoffset():
                break
            start += DAY
        start += RANDOM.randrange(-6, 30) * HOUR
        if not start.astimezone(zone).fold:  # the first row of a series is the first showing of its time
            return [start + i * HOUR for i in range(n)]


def table(path, series, form):
    lines = ["id;date;v"]
    for name, dates in series.items():
        lines += [f"{name};{d.strftime(form)};{i * i % 11}" for i, d in enumerate(dates)]
    path.write_text("\n".join(lines) + "\n")


def continued(folder):
    """10,000 series of random starts go on as in Python's calendar"""
    n_starts = 0
    for step, (draw, form, given, n_files) in KINDS.items():
        long = draw(400)  # weeks enough for a calendar
        table(folder / "train.csv", {"a": long}, form)
        configs = folder / (step + ".toml")
        ok("new", "forecast", configs, "--data", folder / "train.csv", "--set", "data.id=id", "--set", "data.column=v",
           "--set", f"data.date_format={given}")
        run = folder / ("run " + step)
        done = ok("train", configs, "--out", run, *SMALL)
        series, wanted = {}, []
        for i in range(20 * n_files):
            dates = draw(ROWS + AHEAD)
            series[f"s{i}"] = dates[:ROWS]
            wanted += [(f"s{i}", d.strftime(form)) for d in dates[ROWS:]]
        table(folder / "later.csv", series, form)
        rows = list(csv.DictReader(io.StringIO(ok("predict", run, "--input", folder / "later.csv").out)))
        got = [(row["id"], row["date"]) for row in rows]
        wrong = [(w, g) for w, g in zip(wanted, got) if w != g]
        assert len(got) == len(wanted) and not wrong, (step, len(got), len(wanted), wrong[:3], done.messages()[:3])
        n_starts += len(series)
    assert n_starts >= 10_000, n_starts


def on_clocks(folder):
    """2,000 hours of 20 zones go on as in Python's zoneinfo; dates with an offset too"""
    if not (FOLDER_OF_ZONES / ZONES[0]).exists():
        print(f"no time zones in {FOLDER_OF_ZONES}: not checked")
        return
    n_starts, shown_twice = 0, 0
    for k, name in enumerate(ZONES):
        zone, form = zoneinfo.ZoneInfo(name), ("%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M %z")[k % 2]
        shown = lambda hours: [hour.astimezone(zone) for hour in hours]
        table(folder / "train.csv", {"a": shown(hours_of(zone, 300))}, form)
        config, run = folder / f"zone{k}.toml", folder / f"zone{k}"
        ok("new", "forecast", config, "--data", folder / "train.csv", "--set", "data.id=id", "--set", "data.column=v",
           "--set", f"data.timezone={name}", *(["--set", f"data.date_format={form}"] if "%z" in form else []))
        ok("train", config, "--out", run, *SMALL)
        dates = {f"s{i}": shown(hours_of(zone, ROWS + AHEAD)) for i in range(100)}
        table(folder / "later.csv", {i: all[:ROWS] for i, all in dates.items()}, form)
        rows = list(csv.DictReader(io.StringIO(ok("predict", run, "--input", folder / "later.csv").out)))
        got = collections.defaultdict(list)
        for row in rows:
            got[row["id"]].append(row["date"])
        wrong = [([f"{d:{form}}" for d in all], got[i]) for i, all in dates.items()
                 if [f"{d:{form}}" for d in all[ROWS:]] != got[i]]
        assert not wrong, (name, len(wrong), wrong[:3])
        n_starts += len(dates)
        shown_twice += sum(d.fold for all in dates.values() for d in all)
    assert n_starts == 2000 and shown_twice > 50, (n_starts, shown_twice)


with tempfile.TemporaryDirectory() as work:
    run_checks([continued, on_clocks], work)
