# `cmake --install`: the library under the names that programs ask for, headers, the tools, what finds them (pkg-config,
# find_package), and the soft GPU where no loader looks by itself. Components, for packages and images: runtime, development,
# documentation; csi, which is installed only when it is named. The target `uninstall` takes away what was installed last.
include(CMakePackageConfigHelpers)

set(sluice_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)
set(sluice_pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Debug information makes nine tenths of a build. CMake strips programs and shared libraries when this is set.
if(SLUICE_STRIP AND CMAKE_STRIP)
  install(CODE "set(CMAKE_INSTALL_DO_STRIP TRUE)" ALL_COMPONENTS)
endif()

install(TARGETS cufile cufile_rdma
  LIBRARY DESTINATION ${SLUICE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(TARGETS cufile_static ARCHIVE DESTINATION ${SLUICE_INSTALL_LIBDIR} COMPONENT development)
# It leaves archives as they are, whose symbols are needed to link them.
if(SLUICE_STRIP AND CMAKE_STRIP AND CMAKE_OBJCOPY)
  install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\"
    -D \"archive=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${SLUICE_INSTALL_LIBDIR}/libcufile_static.a\"
    -D \"strip=${CMAKE_STRIP}\" -D \"linker=${CMAKE_LINKER}\" -D \"objcopy=${CMAKE_OBJCOPY}\" -D \"ar=${CMAKE_AR}\"
    -P \"${CMAKE_CURRENT_LIST_DIR}/OneObject.cmake\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT development)
endif()
install(FILES include/cufile.h include/cudafile.h include/sluice.h include/sluice_rdma.h include/sluice_stats.h
  include/sluice_trace.h
  DESTINATION ${SLUICE_INSTALL_INCLUDEDIR} COMPONENT development)

# All that the component `runtime` is built of.
add_custom_target(runtime DEPENDS
  cufile cufile_rdma softcuda softgdr sluice_witness sluice gds_stats gdscheck gdscp gdsio gdsio_verify)
install(TARGETS sluice gds_stats gdscheck gdscp gdsio gdsio_verify
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(PROGRAMS tools/scripts/gds_perf.sh tools/scripts/gds_log_collection.py tools/scripts/gdscheck.py
  DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(TARGETS sluice_witness LIBRARY DESTINATION ${sluice_private_libdir} COMPONENT runtime)
install(FILES packaging/cufile.json LICENSE packaging/NOTICES DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice COMPONENT runtime)
install(FILES deploy/grafana/sluice.json DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/grafana COMPONENT runtime)

# Never next to the library: it would shadow a real driver.
install(TARGETS softcuda softgdr
  LIBRARY DESTINATION ${sluice_private_libdir}/softgpu COMPONENT runtime NAMELINK_SKIP)

# The package is written by hand, not exported: the static library is one archive of our objects, and its users need
# none of the build's own targets.
configure_package_config_file(packaging/SluiceConfig.cmake.in ${PROJECT_BINARY_DIR}/packaging/SluiceConfig.cmake
  INSTALL_DESTINATION ${sluice_cmake_dir}
  PATH_VARS SLUICE_INSTALL_INCLUDEDIR SLUICE_INSTALL_LIBDIR sluice_private_libdir CMAKE_INSTALL_BINDIR)
# Before 1.0 a minor version may change what programs see.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/packaging/SluiceConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/packaging/SluiceConfig.cmake ${PROJECT_BINARY_DIR}/packaging/SluiceConfigVersion.cmake
  DESTINATION ${sluice_cmake_dir} COMPONENT development)

# pkg-config follows the folder that the file lies in, so an installation can be moved.
file(RELATIVE_PATH sluice_prefix_from_pc "/${sluice_pkgconfig_dir}" "/")
string(REGEX REPLACE "/$" "" sluice_prefix_from_pc "${sluice_prefix_from_pc}")
configure_file(packaging/cufile.pc.in ${PROJECT_BINARY_DIR}/packaging/cufile.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/packaging/cufile.pc DESTINATION ${sluice_pkgconfig_dir} COMPONENT development)

# Made where there was a Python to make them (tools/CMakeLists.txt).
if(TARGET manual)
  set(manual ${PROJECT_BINARY_DIR}/manual)
  install(DIRECTORY ${manual}/man1 ${manual}/man3 ${manual}/man5 DESTINATION ${CMAKE_INSTALL_MANDIR}
    COMPONENT documentation PATTERN "sluice-csi*" EXCLUDE)
  install(DIRECTORY ${manual}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    COMPONENT documentation PATTERN "sluice-csi" EXCLUDE)
  install(DIRECTORY ${manual}/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
    COMPONENT documentation PATTERN "_sluice-csi" EXCLUDE)
endif()

install(DIRECTORY samples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/samples COMPONENT development
  FILES_MATCHING PATTERN "*.c" PATTERN "*.h" PATTERN "Makefile")

# The pages, whose links lead to what is installed; without a Python as they are.
if(TARGET pages)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/pages/ DESTINATION ${SLUICE_INSTALL_PAGES} COMPONENT documentation PATTERN "made" EXCLUDE)
else()
  install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE DESTINATION ${SLUICE_INSTALL_PAGES} COMPONENT documentation)
  install(DIRECTORY docs DESTINATION ${SLUICE_INSTALL_PAGES} COMPONENT documentation
    FILES_MATCHING PATTERN "*.md" PATTERN "*.schema.json" PATTERN "*.svg")
endif()

# The driver for Kubernetes and its chart, where they were asked for.
if(TARGET sluice-csi)
  install(TARGETS sluice-csi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT csi EXCLUDE_FROM_ALL)
  install(DIRECTORY deploy/helm/sluice DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/helm COMPONENT csi EXCLUDE_FROM_ALL)
  if(TARGET manual)
    install(FILES ${manual}/man1/sluice-csi.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT csi EXCLUDE_FROM_ALL)
    install(FILES ${manual}/bash/sluice-csi DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT csi EXCLUDE_FROM_ALL)
    install(FILES ${manual}/zsh/_sluice-csi DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT csi EXCLUDE_FROM_ALL)
  endif()
endif()

install(CODE "file(WRITE \"${PROJECT_BINARY_DIR}/install_prefix.txt\" \"\${CMAKE_INSTALL_PREFIX}\\n\")" ALL_COMPONENTS)
add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -D manifests=${PROJECT_BINARY_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/Uninstall.cmake
  COMMENT "Taking away what was installed last" VERBATIM)
