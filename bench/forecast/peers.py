#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forecast one set of walk.py with another library, which walk.py --peers starts.

usage: bench/forecast/peers.py PEER FOLDER SET SEEDS

Prints as JSON the mean absolute error of each column, for each seed, and the seconds and CPU seconds of a seed.
ets, theta, arima: AutoETS, AutoTheta and AutoARIMA of statsforecast, fitted once to the rows before the first origin;
every forecast applies the fitted parameters to all rows before its origin. mstl: MSTL with AutoETS for the trend,
fitted again at every origin. lstm: the defaults of unroll as of version 0.1.0 (window 52, 32 units, 300 updates of 32
windows, Adam) in PyTorch. lstm-window: the same with each window in units of its own mean and standard deviation.
lstm-known, lstm-unknown: LSTM of neuralforecast with its defaults and windows of a week, with and without covariates.
"""
import copy
import json
import sys

import numpy as np

import walk

WINDOW, UNITS, UPDATES, BATCH, RATE, EVERY = 52, 32, 300, 32, 0.005, 100
LONGEST_SEASON = 24  # AutoETS has no longer one; the search of AutoARIMA takes hours


def fitted_once(make):
    """make(season) gives a model of statsforecast."""
    def errors(series, _seed):
        season = series.seasons[0]
        if season > LONGEST_SEASON:
            raise SystemExit(f"a season of {season} steps is too long")
        columns = [np.array(values) for values in series.filled]
        models = [make(season).fit(y[:series.first]) for y in columns]
        return series.errors(lambda t: [model.forward(y[:t], h=series.horizon)["mean"]
                                        for model, y in zip(models, columns)])
    return errors


def mstl(series, _seed):
    from statsforecast.models import MSTL, AutoETS
    if series.seasons == [1]:
        raise SystemExit("there is no season")
    columns = [np.array(values) for values in series.filled]
    model = MSTL(season_length=series.seasons, trend_forecaster=AutoETS(model="ZZN"))
    return series.errors(lambda t: [model.forecast(y=y[:t], h=series.horizon)["mean"] for y in columns])


def windows_at(values, places, horizon):
    """Inputs [N,W,S] and targets [N,H,S]."""
    before = np.stack([values[t - WINDOW:t] for t in places])
    return before, np.stack([values[t:t + horizon] for t in places])


def scaled(before, after, by_window):
    """Both in units of each window, with what returns to those of the series."""
    if not by_window:
        return before, after, 0.0, 1.0
    mean, deviation = before.mean(1, keepdims=True), before.std(1, keepdims=True) + 1e-6
    return (before - mean) / deviation, (after - mean) / deviation, mean, deviation


def trained(network, train, validation, rng):
    """The parameters with the lowest loss on the validation set."""
    import torch
    optimizer, best, lowest = torch.optim.Adam(network.parameters(), lr=RATE), None, float("inf")
    order = np.empty(0, dtype=int)
    for update in range(1, UPDATES + 1):
        if len(order) < BATCH:
            order = np.concatenate([order, rng.permutation(len(train[0]))])
        picked, order = order[:BATCH], order[BATCH:]
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(network(train[0][picked]), train[1][picked]).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if update % EVERY == 0:
            with torch.no_grad():
                loss = torch.nn.functional.mse_loss(network(validation[0]), validation[1]).item()
            if loss < lowest:
                lowest, best = loss, copy.deepcopy(network.state_dict())
    network.load_state_dict(best)


def lstm(by_window):
    import torch

    class Network(torch.nn.Module):
        def __init__(self, series, horizon):
            super().__init__()
            self.layer = torch.nn.LSTM(series, UNITS, batch_first=True)
            self.output = torch.nn.Linear(UNITS, horizon * series)

        def forward(self, x):
            return self.output(self.layer(x)[0][:, -1])

    def errors(series, seed):
        torch.manual_seed(seed)
        levels = np.array(series.filled).T
        mean, deviation = levels[:series.trained].mean(0), levels[:series.trained].std(0)
        values = (levels - mean) / deviation
        sets = []
        for begin, end in ((WINDOW, series.trained), (series.trained, series.first), (series.first, len(values))):
            places = range(max(begin, WINDOW), end - series.horizon + 1)
            before, after, *units = scaled(*windows_at(values, places, series.horizon), by_window)
            sets.append([torch.tensor(part, dtype=torch.float32) for part in (before, after.reshape(len(after), -1))])
        network = Network(len(series.columns), series.horizon)
        trained(network, *sets[:2], np.random.default_rng(seed))
        with torch.no_grad():
            answers = network(sets[2][0]).numpy().reshape(after.shape)
        answers = (answers * units[1] + units[0]) * deviation + mean
        return series.errors(lambda t: answers[t - series.first].T)
    return errors


def neural(with_covariates):
    def errors(series, seed):
        import logging
        import pandas
        from neuralforecast import NeuralForecast
        from neuralforecast.models import LSTM
        logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
        frame = pandas.read_csv(series.path)
        features = pandas.get_dummies(frame[walk.data.COVARIATES]).astype(float).ffill()
        frame = features.assign(unique_id="a", ds=range(len(frame)), y=np.array(series.filled[0]))
        known = list(features.columns) if with_covariates else None
        model = LSTM(h=series.horizon, input_size=7 * series.m, futr_exog_list=known, random_seed=seed + 1,
                     enable_progress_bar=False, logger=False, accelerator="cpu", devices=1)
        found = NeuralForecast([model], freq=1).cross_validation(frame, n_windows=len(series.origins), step_size=1)
        paths = {cut + 1: of["LSTM"].to_numpy() for cut, of in found.groupby("cutoff")}
        return series.errors(lambda t: [paths[t]])
    return errors


def method(peer):
    """The function of a series and a seed; imports what it needs."""
    if peer.startswith("lstm"):
        import torch
        torch.set_num_threads(1)
        if peer.endswith("known"):
            return neural(peer == "lstm-known")
        return lstm(peer == "lstm-window")
    from statsforecast import models
    return {"ets": fitted_once(lambda m: models.AutoETS(season_length=m)),
            "theta": fitted_once(lambda m: models.AutoTheta(season_length=m)),
            "arima": fitted_once(lambda m: models.AutoARIMA(season_length=m)), "mstl": mstl}[peer]


def main():
    peer, folder, name, seeds = sys.argv[1:]
    run, series = method(peer), walk.Series(folder, name)
    seeds = int(seeds) if peer.startswith("lstm") else 1
    begin = walk.now()
    errors = [[float(e) for e in run(series, seed)] for seed in range(seeds)]
    print(json.dumps([errors, *walk.since(begin, seeds)]))


if __name__ == "__main__":
    main()
