// SPDX-License-Identifier: Apache-2.0
// The standard headers that most files use, read once per build; every file still includes what it uses.
#ifndef UNROLL_PRECOMPILED_H  // compiled by itself too, where g++ warns of #pragma once
#define UNROLL_PRECOMPILED_H

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#endif
