# Language standards, warnings and sanitizers, as interface targets that every target of ours links.

add_library(sluice_standards INTERFACE)
target_compile_features(sluice_standards INTERFACE c_std_11 cxx_std_20)
# So that ccache, which asks for what a source is after preprocessing, may know one that has a precompiled header.
target_compile_options(sluice_standards INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)

# Where it was built says nothing about what was built: two folders give the same bytes. Debuggers then look for sources below
# the folder that they are started in.
if(SLUICE_REPRODUCIBLE)
  target_compile_options(sluice_standards INTERFACE
    "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=." "-ffile-prefix-map=${PROJECT_BINARY_DIR}=build")
endif()

# The flags alone are for tests that compile the public headers as older C++.
add_library(sluice_warning_flags INTERFACE)
target_compile_options(sluice_warning_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wcast-align -Wformat=2
  $<$<BOOL:${SLUICE_WERROR}>:-Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast -Wextra-semi>)
add_library(sluice_warnings INTERFACE)
target_link_libraries(sluice_warnings INTERFACE sluice_warning_flags sluice_standards)

# The product also keeps an eye on every implicit narrowing; tests and benchmarks may be looser.
add_library(sluice_strict_flags INTERFACE)
target_link_libraries(sluice_strict_flags INTERFACE sluice_warning_flags)
target_compile_options(sluice_strict_flags INTERFACE -Wconversion -Wsign-conversion -Wundef)
add_library(sluice_strict INTERFACE)
target_link_libraries(sluice_strict INTERFACE sluice_strict_flags sluice_warnings)

add_library(sluice_sanitizers INTERFACE)
if(SLUICE_SANITIZE)
  target_compile_options(sluice_sanitizers INTERFACE
    -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sluice_sanitizers INTERFACE -fsanitize=${SLUICE_SANITIZE})
  # ThreadSanitizer does not see fences, and GCC warns of each; what they order are the words of rings, never data.
  if(SLUICE_SANITIZE MATCHES thread)
    target_compile_options(sluice_sanitizers INTERFACE "$<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>")
  endif()
  # ThreadSanitizer takes the thread-local variables of a library that was loaded later for part of the thread's own
  # block, and ends the process when they happen to lie elsewhere. LeakSanitizer does not know where they lie, either.
  target_compile_options(sluice_sanitizers INTERFACE -ftls-model=initial-exec)
endif()
target_link_libraries(sluice_warning_flags INTERFACE sluice_sanitizers)

# sluice_by_folders(TARGET): compiles the sources of each folder as one file, at most a dozen
# at a time, where SLUICE_UNITY says so. A folder's sources therefore name nothing alike in their anonymous namespaces.
function(sluice_by_folders target)
  if(NOT SLUICE_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  get_target_property(home ${target} SOURCE_DIR)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${home} NORMALIZE)
    if(NOT source MATCHES "\\.cpp$" OR NOT source MATCHES "^${PROJECT_SOURCE_DIR}/")
      continue()
    endif()
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME name)
    math(EXPR ${name}_count "${${name}_count} + 1")
    math(EXPR part "(${${name}_count} - 1) / 12 + 1")
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP "${name}${part}")
  endforeach()
endfunction()

# sluice_tests_by_folders(TARGET): the same for tests, which takes half the time. Where two files have names alike, one of
# them has a namespace of its own. A name that a neighbour has outside of its tests may be a local one here; builds that
# compile each source by itself look for shadows.
add_library(sluice_no_shadow INTERFACE)
target_compile_options(sluice_no_shadow INTERFACE -Wno-shadow)
function(sluice_tests_by_folders target)
  sluice_by_folders(${target})
  if(SLUICE_UNITY)
    target_link_libraries(${target} PRIVATE sluice_no_shadow)  # linked last, so that it has the last word
  endif()
endfunction()

# Tools spend their time in the library, and half of what -O2 takes for them goes into reading a command line: less
# optimisation, and of debug information the lines. Where they compare bytes, GCC's loops are no slower by it; the
# patterns that gdsio writes are made in tools/common, which is compiled as the library is.
add_library(sluice_lightly INTERFACE)
# Tests are compiled more often than they are run: the same. GCC's warnings about bounds rest on passes that are not run
# then, and in tests see what is not there.
add_library(sluice_quickly INTERFACE)
if(CMAKE_BUILD_TYPE STREQUAL RelWithDebInfo)
  target_compile_options(sluice_lightly INTERFACE -O1 -g1)
  target_compile_options(sluice_quickly INTERFACE "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")
endif()
target_link_libraries(sluice_quickly INTERFACE sluice_lightly)
