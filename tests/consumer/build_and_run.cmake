# Runs the lines of docs/c_api.md as they stand there, in a scratch folder: the package from BUILD is installed, a program built by hand
# and run with the plan file PLAN (TIGHT of a rank that has little room for more rows). Only the folders of the page are replaced by those of this run, and program.c is consumer.c. Then the
# project in SOURCE is built against the package with CMake, as the page's second block has it.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}\n${output}")
  endif()
  message(STATUS "${output}")
endfunction()

# The text between ```LANGUAGE and ``` of the page's first such block.
function(block_of page language result)
  string(FIND "${page}" "```${language}\n" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "docs/c_api.md has no block of ${language}")
  endif()
  string(LENGTH "```${language}\n" length)
  math(EXPR begin "${begin} + ${length}")
  string(SUBSTRING "${page}" ${begin} -1 rest)
  string(FIND "${rest}" "```" end)
  string(SUBSTRING "${rest}" 0 ${end} block)
  set(${result} "${block}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
set(prefix ${SCRATCH}/prefix)
file(READ ${PAGE} page)

# ---- by hand ------------------------------------------------------------------------------------------------------------------------
block_of("${page}" sh lines)
foreach(step "cmake --build build/release --target tidemark_c" "cmake --install build/release" "cc -std=c11" "./program plan.json")
  if(NOT lines MATCHES "${step}")
    message(FATAL_ERROR "docs/c_api.md no longer has '${step}'")
  endif()
endforeach()
string(REPLACE "build/release" "'${BUILD}'" lines "${lines}")
string(REPLACE "/opt/tidemark" "${prefix}" lines "${lines}")
file(WRITE ${SCRATCH}/lines.sh "${lines}")
file(COPY_FILE ${SOURCE}/consumer.c ${SCRATCH}/program.c)
file(COPY_FILE ${PLAN} ${SCRATCH}/plan.json)
run(${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH --unset=PKG_CONFIG_PATH ${CMAKE_COMMAND} -E chdir ${SCRATCH} sh -e -u lines.sh)

file(GLOB_RECURSE headers RELATIVE ${prefix} ${prefix}/include/*)
if(NOT headers STREQUAL "include/tidemark/tidemark.h")
  message(FATAL_ERROR "installed headers: ${headers}")
endif()
file(GLOB_RECURSE library ${prefix}/libtidemark.so)

# ---- with CMake ---------------------------------------------------------------------------------------------------------------------
block_of("${page}" cmake project_lines)
file(READ ${SOURCE}/CMakeLists.txt project)
string(REPLACE "target_link_libraries(program" "target_link_libraries(consumer" project_lines "${project_lines}")
string(REPLACE "\n" ";" project_lines "${project_lines}")
foreach(line IN LISTS project_lines)
  string(FIND "${project}" "${line}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "docs/c_api.md says '${line}'; the project of this test does not")
  endif()
endforeach()
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH}/with_cmake -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_C_COMPILER=${CC})
run(${CMAKE_COMMAND} --build ${SCRATCH}/with_cmake)
run(${SCRATCH}/with_cmake/consumer ${PLAN})
run(${SCRATCH}/with_cmake/expert_group ${TIGHT})
run(${CMAKE_COMMAND} -E env TIDEMARK_ALLOCATOR_DEVICE=host ${SCRATCH}/with_cmake/plug_in ${library})

# Warnings of a strict compiler are errors of the header.
run(${CC} -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only -I${prefix}/include ${SOURCE}/consumer.c)
