// SPDX-License-Identifier: Apache-2.0
// UNROLL_API marks the symbols that a shared library exports; all others are hidden.
#pragma once

#if defined(_WIN32)
#define UNROLL_API
#else
#define UNROLL_API __attribute__((visibility("default")))
#endif
