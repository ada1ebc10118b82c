# SPDX-License-Identifier: Apache-2.0
# c7x_test_module(NAME): builds fixtures/NAME.c, and fixtures/NAME_data.c with its weights if there is one, into
# tests/modules/NAME.out of the build folder: a native module of the format of docs/modules.md, made with the linker
# script of c7x-compile. Never sanitized, since a module has no runtime to call.
set(C7X_MODULE_SCRIPT ${CMAKE_BINARY_DIR}/tests/module.ld)
set(PAGE 4096)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
  set(PAGE 65536)
endif()
configure_file(${PROJECT_SOURCE_DIR}/compiler/c7x_compile/data/module.ld ${C7X_MODULE_SCRIPT} @ONLY)
set(C7X_TEST_MODULES_DIR ${CMAKE_BINARY_DIR}/tests/modules)
set(C7X_TEST_MODULE_FILES)
set(C7X_MODULE_COMPILE -std=c11 -O2 -Wall -Wextra -fPIC -fno-plt -fvisibility=hidden -fno-stack-protector
    -fno-asynchronous-unwind-tables -U_FORTIFY_SOURCE -I${PROJECT_SOURCE_DIR}/include)
set(C7X_MODULE_LINK -shared -nostdlib -Wl,-soname,lib0.out -Wl,--hash-style=sysv -Wl,-z,now -Wl,-z,norelro
    -Wl,-Bsymbolic -Wl,-z,noexecstack -Wl,-z,max-page-size=4096 -Wl,--build-id=none -Wl,-T,${C7X_MODULE_SCRIPT})

function(c7x_test_module name)
  set(fixtures ${PROJECT_SOURCE_DIR}/tests/loader/fixtures)
  set(objects)
  foreach(part ${name} ${name}_data)
    if(EXISTS ${fixtures}/${part}.c)
      set(object ${C7X_TEST_MODULES_DIR}/${part}.o)
      add_custom_command(OUTPUT ${object}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${C7X_TEST_MODULES_DIR}
        COMMAND ${CMAKE_C_COMPILER} ${C7X_MODULE_COMPILE} -c ${fixtures}/${part}.c -o ${object}
        DEPENDS ${fixtures}/${part}.c ${fixtures}/fixture.h ${fixtures}/ones.h ${fixtures}/ticks.h ${PROJECT_SOURCE_DIR}/include/c7x_kernels.h
                ${PROJECT_SOURCE_DIR}/include/c7x_module.h VERBATIM)
      list(APPEND objects ${object})
    endif()
  endforeach()
  set(output ${C7X_TEST_MODULES_DIR}/${name}.out)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_C_COMPILER} ${C7X_MODULE_LINK} ${objects} -o ${output}
    DEPENDS ${objects} ${C7X_MODULE_SCRIPT} VERBATIM)
  set(C7X_TEST_MODULE_FILES ${C7X_TEST_MODULE_FILES} ${output} PARENT_SCOPE)
endfunction()

# c7x_test_variant(NAME HOLDS text [PLAIN] [COMPILER c ...] [COMPILE flag ...] [LINK flag ...]): fixtures/relocations.c made in
# another way; readelf must print the text of it, so that it is what its name says. PLAIN: with what the compiler driver
# does unasked, in place of the flags and the linker script of c7x-compile.
find_program(C7X_READELF readelf REQUIRED) # GNU's, of every architecture
function(c7x_test_variant name)
  cmake_parse_arguments(arg "PLAIN" "HOLDS" "COMPILER;COMPILE;LINK" ${ARGN})
  if(NOT arg_COMPILER)
    set(arg_COMPILER ${CMAKE_C_COMPILER})
  endif()
  set(link ${C7X_MODULE_LINK})
  if(arg_PLAIN)
    set(link -shared)
  endif()
  set(source ${PROJECT_SOURCE_DIR}/tests/loader/fixtures/relocations.c)
  set(output ${C7X_TEST_MODULES_DIR}/relocations_${name}.out)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${C7X_TEST_MODULES_DIR}
    COMMAND ${arg_COMPILER} ${C7X_MODULE_COMPILE} ${arg_COMPILE} -c ${source} -o ${output}.o
    COMMAND ${arg_COMPILER} ${link} ${arg_LINK} ${output}.o -o ${output}
    COMMAND sh -c "${C7X_READELF} -rdW ${output} | grep -q ${arg_HOLDS} || { rm ${output}; echo no ${arg_HOLDS} in it; exit 1; }"
    DEPENDS ${source} ${C7X_MODULE_SCRIPT} ${PROJECT_SOURCE_DIR}/include/c7x_module.h VERBATIM)
  set(C7X_TEST_MODULE_FILES ${C7X_TEST_MODULE_FILES} ${output} PARENT_SCOPE)
  set(C7X_TEST_VARIANTS ${C7X_TEST_VARIANTS} ${name} PARENT_SCOPE)
endfunction()
