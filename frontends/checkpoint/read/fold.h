// SPDX-License-Identifier: Apache-2.0
// Weights that PyTorch computes from other tensors, as it computes them for inference.
#pragma once

#include "frontends/checkpoint/read/named_tensor.h"

namespace unroll::checkpoint {

// Replaces the tensors of weight norm, g v / |v| (Salimans and Kingma, 2016), of spectral norm, W / (u W v) (Miyato and
// others, 2018), and of pruning, W times a mask, by the weight. `stored` then names the tensors. Both forms of PyTorch
// are known: attributes such as weight_g and weight_v, and torch.nn.utils.parametrizations.
void fold_parametrizations(Checkpoint& checkpoint);

}  // namespace unroll::checkpoint
