# One place for what every target of the project shares: warnings, sanitizers, the include root.
add_library(tidemark_options INTERFACE)
target_include_directories(tidemark_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(tidemark_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Wnon-virtual-dtor -Wold-style-cast
  -Wno-missing-field-initializers  # designated initialisers leave the other members at their defaults on purpose
  $<$<BOOL:${TIDEMARK_WARNINGS_AS_ERRORS}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13 AND NOT TIDEMARK_WARNINGS_AS_ERRORS)
  # At -O3, `"text" + std::string` of GCC 12 looks as if it copied onto itself (GCC bug 105651). The presets keep the warning.
  target_compile_options(tidemark_options INTERFACE -Wno-restrict)
endif()
if(TIDEMARK_SANITIZE_ADDRESS OR TIDEMARK_SANITIZE_THREAD)
  # Instrumented, std::regex and std::optional of GCC 12 look uninitialised to this warning; the other builds keep it.
  target_compile_options(tidemark_options INTERFACE -Wno-maybe-uninitialized)
endif()
if(TIDEMARK_SANITIZE_ADDRESS)
  # An access through a null or overflown pointer, past an object or to a dead one stops under AddressSanitizer without a check of its
  # own, and code that never sees raw bytes cannot misalign any. These checks took some 40 % of the time to compile a file; what is
  # given up is a cast to a wrong class (`vptr`). Targets that do handle raw bytes keep `alignment` (TIDEMARK_RAW_BYTES).
  target_compile_options(tidemark_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-sanitize=null,object-size,pointer-overflow,vptr
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:TIDEMARK_RAW_BYTES>>>:-fno-sanitize=alignment> -fno-omit-frame-pointer)
  target_link_options(tidemark_options INTERFACE -fsanitize=address,undefined)
endif()
if(TIDEMARK_SANITIZE_THREAD)
  target_compile_options(tidemark_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(tidemark_options INTERFACE -fsanitize=thread)
endif()

# tidemark_unity(name [a.cc ...]): several files of a target compiled as one where TIDEMARK_UNITY is ON, without those named.
function(tidemark_unity name)
  get_target_property(sources ${name} SOURCES)
  list(LENGTH sources count)
  if(TIDEMARK_UNITY AND count GREATER 1)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    # An anonymous namespace behind an #include is not a header's here.
    target_compile_options(${name} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# tidemark_library(name SOURCES a.cc ... LINKS other ... [ALONE a.cc ...])
# ALONE: files with names in their anonymous namespaces that others have too. No two of the rest share one, so files may be added
# anywhere (TIDEMARK_UNITY).
function(tidemark_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;ALONE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  tidemark_unity(${name} ${ARG_ALONE})
  target_link_libraries(${name} PUBLIC tidemark_options ${ARG_LINKS})
  # Every library may become part of libtidemark.so, which exports its C functions only. Hidden symbols also spare
  # position-independent code its detours.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# tidemark_test(name SOURCES a_test.cc ... LINKS lib ... [LABELS label ...] [ALONE a_test.cc ...] [WHOLE Suite.Test ...]): one GoogleTest program, one ctest entry a test.
# Labels: `sanitize` has threads and runs under ThreadSanitizer too; `slow` plans whole reference jobs and is not built with
# sanitizers; `whole` holds what sanitized builds run a part of, or skip, and the plain build of the gate runs all of; `input` is
# about bad input. What has no label runs in the development build and under AddressSanitizer.
# WHOLE: long tests of code that shorter ones of the same program run as well. Sanitized builds leave them out, and of this program
# the plain build of the gate runs them alone.
add_custom_target(sanitize_tests)
add_custom_target(plain_tests)
function(tidemark_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;LABELS;ALONE;WHOLE" ${ARGN})
  set(sanitized OFF)
  if(TIDEMARK_SANITIZE_ADDRESS OR TIDEMARK_SANITIZE_THREAD)
    set(sanitized ON)
  endif()
  if("slow" IN_LIST ARG_LABELS AND sanitized)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  tidemark_unity(${name} ${ARG_ALONE})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} tidemark_source_dir tidemark_json_text GTest::gtest GTest::gtest_main)
  if("sanitize" IN_LIST ARG_LABELS)
    add_dependencies(sanitize_tests ${name})
  endif()
  if("slow" IN_LIST ARG_LABELS OR "whole" IN_LIST ARG_LABELS OR ARG_WHOLE)
    add_dependencies(plain_tests ${name})
  endif()
  string(REPLACE ";" "-" label "${ARG_LABELS}")  # a list does not survive gtest_discover_tests; ctest selects by part of a name
  string(REPLACE ";" ":" whole "${ARG_WHOLE}")
  set(others "")
  if(whole)
    set(others TEST_FILTER "-${whole}")
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 ${others} PROPERTIES LABELS "${label}")
  if(whole AND NOT sanitized)
    list(APPEND ARG_LABELS whole)
    string(REPLACE ";" "-" label "${ARG_LABELS}")
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_FILTER "${whole}" TEST_LIST ${name}_WHOLE PROPERTIES LABELS "${label}")
  endif()
endfunction()

# tidemark_table(out_sources TEMPLATE file.in PREFIX k NAMES a_b ... ): each name is one file <name>.cc that defines
# `extern const ... <PREFIX><AB>`; the table file generated from TEMPLATE (@DECLARE@ type, @DECLARATIONS@, @TABLE@) lists them in order.
function(tidemark_table out_sources)
  cmake_parse_arguments(ARG "" "TEMPLATE;TYPE;PREFIX" "NAMES" ${ARGN})
  set(DECLARATIONS "")
  set(TABLE "")
  set(sources "")
  foreach(name ${ARG_NAMES})
    string(REPLACE "_" ";" words ${name})
    set(symbol ${ARG_PREFIX})
    foreach(word ${words})
      string(SUBSTRING ${word} 0 1 head)
      string(SUBSTRING ${word} 1 -1 tail)
      string(TOUPPER ${head} head)
      string(APPEND symbol ${head}${tail})
    endforeach()
    string(APPEND DECLARATIONS "extern const ${ARG_TYPE} ${symbol};\n")
    string(APPEND TABLE "${symbol}, ")
    list(APPEND sources ${name}.cc)
  endforeach()
  get_filename_component(table ${ARG_TEMPLATE} NAME_WLE)
  configure_file(${ARG_TEMPLATE} ${CMAKE_CURRENT_BINARY_DIR}/${table} @ONLY)
  set(${out_sources} ${sources} ${CMAKE_CURRENT_BINARY_DIR}/${table} PARENT_SCOPE)
endfunction()
