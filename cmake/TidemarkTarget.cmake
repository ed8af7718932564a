# One place for what every target of the project shares: warnings as errors, sanitizers, the include root.
add_library(tidemark_options INTERFACE)
target_include_directories(tidemark_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(tidemark_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Wnon-virtual-dtor -Wold-style-cast
  -Wno-missing-field-initializers  # designated initialisers leave the other members at their defaults on purpose
  -Werror)
if(TIDEMARK_SANITIZE_ADDRESS)
  target_compile_options(tidemark_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tidemark_options INTERFACE -fsanitize=address,undefined)
endif()
if(TIDEMARK_SANITIZE_THREAD)
  target_compile_options(tidemark_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(tidemark_options INTERFACE -fsanitize=thread)
endif()

# tidemark_library(name SOURCES a.cc ... LINKS other ...)
function(tidemark_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC tidemark_options ${ARG_LINKS})
endfunction()

# tidemark_test(name SOURCES a_test.cc ... LINKS lib ... [LABELS label ...]): one GoogleTest program, one ctest entry a test.
function(tidemark_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE TIDEMARK_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABELS}")
endfunction()
