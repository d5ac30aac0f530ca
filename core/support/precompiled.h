// SPDX-License-Identifier: Apache-2.0
// Standard headers that most files use, compiled once per build. Every file still includes its own headers.
#ifndef UNROLL_PRECOMPILED_H  // also compiled separately, where g++ warns about #pragma once
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
