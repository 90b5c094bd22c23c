# SPDX-License-Identifier: Apache-2.0
# fmt for a cross build: its headers, which serve every machine. Debian's own file for CMake belongs to one architecture.
find_path(fmt_INCLUDE_DIR fmt/format.h)
include(FindPackageHandleStandardArgs)
if(fmt_INCLUDE_DIR)  # 90100 is 9.1.0
  file(STRINGS ${fmt_INCLUDE_DIR}/fmt/core.h fmt_number REGEX "^#define FMT_VERSION [0-9]+$")
  string(REGEX REPLACE "^.* ([0-9]+)([0-9][0-9])([0-9][0-9])$" "\\1.\\2.\\3" fmt_VERSION "${fmt_number}")
endif()
find_package_handle_standard_args(fmt REQUIRED_VARS fmt_INCLUDE_DIR VERSION_VAR fmt_VERSION REASON_FAILURE_MESSAGE "install libfmt-dev")
mark_as_advanced(fmt_INCLUDE_DIR)
if(fmt_FOUND AND NOT TARGET fmt::fmt-header-only)
  add_library(fmt::fmt-header-only INTERFACE IMPORTED)
  set_target_properties(fmt::fmt-header-only PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1 INTERFACE_INCLUDE_DIRECTORIES "${fmt_INCLUDE_DIR}")
endif()
