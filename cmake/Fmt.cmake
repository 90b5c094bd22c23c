# sluice_fmt: fmt, of which nothing is left behind in a program that needs it. Debian has its library only as a shared one;
# so its definitions are compiled here, once: as headers alone they would be compiled into every source, six seconds each.
find_package(fmt REQUIRED)
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  add_library(sluice_fmt STATIC cmake/fmt.cpp)
  target_include_directories(sluice_fmt SYSTEM PUBLIC
    $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_options(sluice_fmt PRIVATE -fvisibility=hidden)
  set_target_properties(sluice_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(sluice_fmt PRIVATE sluice_standards sluice_sanitizers)
else()  # which other templates another version compiles once, cmake/fmt.cpp does not know
  add_library(sluice_fmt INTERFACE)
  target_link_libraries(sluice_fmt INTERFACE fmt::fmt-header-only)
endif()
