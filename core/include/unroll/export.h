// SPDX-License-Identifier: Apache-2.0
// UNROLL_API marks what a shared build exports; everything else is hidden.
#pragma once

#if defined(_WIN32)
#define UNROLL_API
#else
#define UNROLL_API __attribute__((visibility("default")))
#endif
