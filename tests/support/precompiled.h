// SPDX-License-Identifier: Apache-2.0
// What most tests include, read once per program of tests; every file still includes what it uses.
#ifndef UNROLL_TESTS_PRECOMPILED_H  // compiled by itself too, where g++ warns of #pragma once
#define UNROLL_TESTS_PRECOMPILED_H

#include <doctest/doctest.h>

#include "core/support/precompiled.h"
#include "unroll/unroll.h"

#endif
