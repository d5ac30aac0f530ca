// SPDX-License-Identifier: Apache-2.0
// A backend that does what another one does, for tests that change what it says of itself.
#pragma once

#include "core/passes/forwarding_backend.h"

namespace unroll::testing {

class AroundBackend : public ForwardingBackend {
 public:
  explicit AroundBackend(Backend& inner) : ForwardingBackend(inner), capabilities_(inner.describe()) {}
  const Capabilities& describe() const override { return capabilities_; }

 protected:
  Capabilities capabilities_;
};

}  // namespace unroll::testing
