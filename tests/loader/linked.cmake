# SPDX-License-Identifier: Apache-2.0
# fixtures/linked.c as people may link it: by each compiler that is there, and in each of the ways below, into
# tests/modules/linked/COMPILER-WAY.out. None uses the linker script of c7x-compile.
set(C7X_LINKED_DIR ${C7X_TEST_MODULES_DIR}/linked)
set(C7X_LINKED_FILES)
set(C7X_LINKED_WAYS plain lazy now symbolic gnu-hash sysv-hash relr standard)
set(way_plain -nostdlib)
set(way_lazy -nostdlib -Wl,-z,lazy)
set(way_now -nostdlib -Wl,-z,now)
set(way_symbolic -nostdlib -Wl,-z,now -Wl,-Bsymbolic)
set(way_gnu-hash -nostdlib -Wl,--hash-style=gnu)
set(way_sysv-hash -nostdlib -Wl,--hash-style=sysv)
set(way_relr -nostdlib -Wl,-z,pack-relative-relocs)
set(way_standard) # with the C library and its start files

set(C7X_LINKED_gcc ${CMAKE_C_COMPILER})
find_program(C7X_CLANG NAMES clang clang-14)
if(C7X_CLANG AND CMAKE_CROSSCOMPILING)
  set(C7X_LINKED_clang ${C7X_CLANG} --target=${CMAKE_C_COMPILER_TARGET})
elseif(C7X_CLANG)
  set(C7X_LINKED_clang ${C7X_CLANG})
endif()

# Whether the linker knows the way: a list of RELR came to some processors late.
function(c7x_way_is_known command way out)
  execute_process(COMMAND ${command} -shared -Wl,--fatal-warnings ${way_${way}} -x c /dev/null
    -o ${CMAKE_CURRENT_BINARY_DIR}/way.so RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
  if(code EQUAL 0)
    set(${out} TRUE PARENT_SCOPE)
  else()
    set(${out} FALSE PARENT_SCOPE)
  endif()
endfunction()

foreach(compiler gcc clang)
  foreach(way IN LISTS C7X_LINKED_WAYS)
    if(NOT C7X_LINKED_${compiler})
      continue()
    endif()
    c7x_way_is_known("${C7X_LINKED_${compiler}}" ${way} known)
    if(NOT known)
      continue()
    endif()
    set(output ${C7X_LINKED_DIR}/${compiler}-${way}.out)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${C7X_LINKED_DIR}
      COMMAND ${C7X_LINKED_${compiler}} -std=c11 -O1 -Wall -Wextra -fPIC -fno-stack-protector -shared ${way_${way}}
              -I${PROJECT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/linked.c -o ${output}
      DEPENDS fixtures/linked.c ${PROJECT_SOURCE_DIR}/include/c7x_module.h VERBATIM)
    list(APPEND C7X_LINKED_FILES ${output})
  endforeach()
endforeach()
