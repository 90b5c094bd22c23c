# `cmake --install`: the library under the names that programs ask for, headers, the tools, what finds them (pkg-config,
# find_package), and the soft GPU where no loader looks by itself.
include(CMakePackageConfigHelpers)

set(sluice_private_libdir ${CMAKE_INSTALL_LIBDIR}/sluice)
set(sluice_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)

install(TARGETS cufile cufile_static
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/cufile.h include/cudafile.h include/sluice.h include/sluice_stats.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

install(TARGETS sluice gds_stats gdscheck gdscp gdsio gdsio_verify RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(PROGRAMS tools/scripts/gds_perf.sh tools/scripts/gds_log_collection.py tools/scripts/gdscheck.py
  DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS sluice_witness LIBRARY DESTINATION ${sluice_private_libdir})
install(FILES packaging/cufile.json DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice)

# Never next to the library: it would shadow a real driver.
install(TARGETS softcuda softgdr LIBRARY DESTINATION ${sluice_private_libdir}/softgpu NAMELINK_SKIP)

# The package is written by hand, not exported: the static library is one archive of our objects, and its users need
# none of the build's own targets.
configure_package_config_file(packaging/SluiceConfig.cmake.in ${PROJECT_BINARY_DIR}/packaging/SluiceConfig.cmake
  INSTALL_DESTINATION ${sluice_cmake_dir}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_BINDIR)
# Before 1.0 a minor version may change what programs see.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/packaging/SluiceConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/packaging/SluiceConfig.cmake ${PROJECT_BINARY_DIR}/packaging/SluiceConfigVersion.cmake
  DESTINATION ${sluice_cmake_dir})

# pkg-config follows the folder that the file lies in, so an installation can be moved.
file(RELATIVE_PATH sluice_prefix_from_pc "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" sluice_prefix_from_pc "${sluice_prefix_from_pc}")
configure_file(packaging/cufile.pc.in ${PROJECT_BINARY_DIR}/packaging/cufile.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/packaging/cufile.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Made where there was a Python to make them (tools/CMakeLists.txt).
if(TARGET manual)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/man1 ${PROJECT_BINARY_DIR}/manual/man3 ${PROJECT_BINARY_DIR}/manual/man5
    DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()

install(DIRECTORY samples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/samples
  FILES_MATCHING PATTERN "*.c" PATTERN "*.h" PATTERN "Makefile")

install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.schema.json" PATTERN "*.svg")
