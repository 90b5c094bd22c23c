# Where the parts of an installation lie. A distribution's package gives the library and the headers folders of their own,
# so that neither lies where another package's libcufile does; by default they lie where a prefix has such things.
include(GNUInstallDirs)

set(SLUICE_INSTALL_LIBDIR "${CMAKE_INSTALL_LIBDIR}" CACHE STRING "Where libcufile.so.0 goes, below the prefix")
set(SLUICE_INSTALL_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}" CACHE STRING "Where the headers go, below the prefix")
set(SLUICE_INSTALL_PAGES "${CMAKE_INSTALL_DOCDIR}" CACHE STRING "Where README.md and docs/ go, below the prefix")

# What no loader looks at by itself: the soft GPU, and what `sluice run` sends along. Tools and library look for it below the
# library's folder, or in it, when that is private already.
set(sluice_private_libdir ${SLUICE_INSTALL_LIBDIR}/sluice)
if(NOT SLUICE_INSTALL_LIBDIR STREQUAL CMAKE_INSTALL_LIBDIR)
  set(sluice_private_libdir ${SLUICE_INSTALL_LIBDIR})
endif()

# Tools find the library from where they lie: in an installation, and in the build folder.
file(RELATIVE_PATH sluice_lib_from_bin "/${CMAKE_INSTALL_BINDIR}" "/${SLUICE_INSTALL_LIBDIR}")
set(sluice_tool_rpath "$ORIGIN/${sluice_lib_from_bin};$ORIGIN/../lib")

# The version of the cuFile interface that the library answers for, where none is asked for, as pkg-config says it.
file(STRINGS ${PROJECT_SOURCE_DIR}/src/config/config.h sluice_api_line REGEX "int api_version = [0-9]+")
string(REGEX MATCH "[0-9]+" sluice_api_number "${sluice_api_line}")
math(EXPR sluice_api_major "${sluice_api_number} / 1000")
math(EXPR sluice_api_minor "${sluice_api_number} % 1000 / 10")
set(sluice_api_version ${sluice_api_major}.${sluice_api_minor})
