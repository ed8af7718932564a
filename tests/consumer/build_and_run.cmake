# Installs the package from BUILD into a scratch prefix, builds the project in SOURCE against it with CMake, the same files with the
# compiler alone, and runs what was built. PLAN is a plan file.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}\n${output}")
  endif()
  message(STATUS "${output}")
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
set(prefix ${SCRATCH}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component c_api)
file(GLOB_RECURSE headers RELATIVE ${prefix} ${prefix}/include/*)
if(NOT headers STREQUAL "include/tidemark/tidemark.h")
  message(FATAL_ERROR "installed headers: ${headers}")
endif()
file(GLOB_RECURSE library ${prefix}/libtidemark.so)
cmake_path(GET library PARENT_PATH library_directory)

run(${CMAKE_COMMAND} -S ${SOURCE} -B ${SCRATCH}/with_cmake -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_C_COMPILER=${CC})
run(${CMAKE_COMMAND} --build ${SCRATCH}/with_cmake)
run(${SCRATCH}/with_cmake/consumer ${PLAN})
run(${CMAKE_COMMAND} -E env TIDEMARK_ALLOCATOR_DEVICE=host ${SCRATCH}/with_cmake/plug_in ${library})

# By hand, with the flags of the pkg-config file where there is a pkg-config.
set(flags -I${prefix}/include -L${library_directory} -ltidemark)
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${library_directory}/pkgconfig ${PKG_CONFIG} --cflags --libs tidemark
    OUTPUT_VARIABLE flags RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "pkg-config does not find tidemark")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
endif()
run(${CC} -std=c11 -Wall -Wextra -Werror -pedantic ${SOURCE}/consumer.c ${flags} -Wl,-rpath,${library_directory} -o ${SCRATCH}/by_hand)
run(${SCRATCH}/by_hand ${PLAN})
