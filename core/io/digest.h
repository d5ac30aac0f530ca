// SPDX-License-Identifier: Apache-2.0
// The digest of a file's content, in its metadata: "crc32c:" and 8 hexadecimal digits.
#pragma once

#include <map>
#include <string>

#include "unroll/io/safetensors.h"

namespace unroll {

inline constexpr const char* k_digest = "digest";        // metadata key of the digest
inline constexpr const char* k_digest_form = "crc32c:";  // prefix of its value

// Computes the digest of all names, types, bytes and other metadata.
std::string digest_of(const TensorMap& tensors, const std::map<std::string, std::string>& metadata);

}  // namespace unroll
