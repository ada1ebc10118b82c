# SPDX-License-Identifier: Apache-2.0
# The warnings that every source of the project is built with, by gcc and clang alike.
add_library(c7x_warnings INTERFACE)
target_compile_options(c7x_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wcast-align -Wvla
  -Wpointer-arith -Wwrite-strings -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wundef
  -Wformat=2 -Wimplicit-fallthrough -Wswitch-enum -Wnull-dereference -Wdouble-promotion
  $<$<BOOL:${C7X_WERROR}>:-Werror>)
