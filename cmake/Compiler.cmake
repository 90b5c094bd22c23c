# Warnings and sanitizers, as two interface targets that every target of ours links.

add_library(sluice_warnings INTERFACE)
target_compile_options(sluice_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wcast-align -Wformat=2
  $<$<BOOL:${SLUICE_WERROR}>:-Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast -Wextra-semi>)

# The product also keeps an eye on every implicit narrowing; tests and benchmarks may be looser.
add_library(sluice_strict INTERFACE)
target_link_libraries(sluice_strict INTERFACE sluice_warnings)
target_compile_options(sluice_strict INTERFACE -Wconversion -Wsign-conversion -Wundef)

add_library(sluice_sanitizers INTERFACE)
if(SLUICE_SANITIZE)
  target_compile_options(sluice_sanitizers INTERFACE
    -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(sluice_sanitizers INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
target_link_libraries(sluice_warnings INTERFACE sluice_sanitizers)
