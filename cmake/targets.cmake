# SPDX-License-Identifier: Apache-2.0
# The one way in which a folder becomes a library or a test.
if(C7X_SANITIZE)
  add_compile_options(-fsanitize=${C7X_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${C7X_SANITIZE})
endif()
if(C7X_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# c7x_library(NAME SOURCES a.c ... [USES other ...]): a static library that is linked into the images.
function(c7x_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;USES" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                             ${PROJECT_SOURCE_DIR}/src/os/posix)
  target_link_libraries(${name} PUBLIC ${arg_USES} PRIVATE c7x_warnings)
  set_target_properties(${name} PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/obj)
endfunction()

# c7x_program(NAME FOLDER): the executable goes to that folder of the build. A cross-compiled one cannot be started as such,
# so a script that runs it stands there, and itself beside it in a folder named after its processor.
function(c7x_program name folder)
  set(place ${CMAKE_BINARY_DIR}/${folder})
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " run)
    set(script ${place}/${name})
    string(APPEND place /${CMAKE_SYSTEM_PROCESSOR})
    file(WRITE ${script} "#!/bin/sh\nexec ${run} ${place}/${name} \"$@\"\n")
    file(CHMOD ${script} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${place})
endfunction()

# c7x_test(NAME LABELS SOURCES a.c ... [USES library ...] [SECONDS 60]): a cmocka program under ctest. The label "soak"
# marks one that does more with C7X_SOAK in the environment.
function(c7x_test name label)
  if(NOT C7X_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "SECONDS" "SOURCES;USES" ${ARGN})
  if(NOT arg_SECONDS)
    set(arg_SECONDS 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${arg_USES} cmocka c7x_warnings)
  c7x_program(${name} tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT ${arg_SECONDS}
    ENVIRONMENT "C7X_BUILD_DIR=${CMAKE_BINARY_DIR};C7X_EMULATOR=${CMAKE_BINARY_DIR}/bin/c7x_emulator")
endfunction()

# c7x_test_again(NAME SUFFIX VARIABLE=VALUE): the same program once more, in another environment.
function(c7x_test_again name suffix setting)
  if(NOT C7X_TESTS)
    return()
  endif()
  get_test_property(${name} LABELS labels)
  get_test_property(${name} TIMEOUT seconds)
  get_test_property(${name} ENVIRONMENT environment)
  add_test(NAME ${name}_${suffix} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name}_${suffix} PROPERTIES LABELS "${labels}" TIMEOUT ${seconds}
    ENVIRONMENT "${environment};${setting}")
endfunction()
