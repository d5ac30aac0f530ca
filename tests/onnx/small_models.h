// SPDX-License-Identifier: Apache-2.0
// Parts of ONNX models that tests write down.
#pragma once

#include <cstdint>
#include <string>

#include "frontends/onnx/import.h"
#include "unroll/support/error.h"

namespace unroll::onnx {

inline Bytes no_files(const std::string& location, std::uint64_t, std::int64_t) {
  throw Error(ErrorKind::input_file, location, "no external data here");
}

inline AttributeDef attribute(const std::string& name, std::int64_t value) {
  AttributeDef a;
  a.name = name;
  a.type = AttributeType::integer;
  a.i = value;
  return a;
}
inline AttributeDef attribute(const std::string& name, const std::string& value) {
  AttributeDef a;
  a.name = name;
  a.type = AttributeType::text;
  a.s = value;
  return a;
}

}  // namespace unroll::onnx
