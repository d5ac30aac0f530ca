// SPDX-License-Identifier: Apache-2.0
// CSS and JavaScript of pages and pictures.
#pragma once

namespace unroll::cli {

extern const char* const k_page_palette;  // colors, light and dark
extern const char* const k_page_style;
extern const char* const k_page_script;

}  // namespace unroll::cli
