// SPDX-License-Identifier: Apache-2.0
// Capabilities of absent devices, for plans.
#pragma once

#include <span>
#include <string_view>

#include "unroll/passes/backend.h"

namespace unroll::profile {

struct Profile {
  std::string_view name;    // "cuda:sm_90"
  std::string_view device;  // a device that it describes, and the figures of it that follow
  void (*describe)(Capabilities& capabilities);
};

std::span<const Profile> profiles();

}  // namespace unroll::profile
