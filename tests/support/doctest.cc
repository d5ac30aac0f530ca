// SPDX-License-Identifier: Apache-2.0
// The code of doctest, for every main function of tests.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
