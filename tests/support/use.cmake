# Brings in what tests/support offers, once.
if(NOT TARGET sluice_test_support)
  add_subdirectory(${PROJECT_SOURCE_DIR}/tests/support ${PROJECT_BINARY_DIR}/tests/support)
endif()
