# SPDX-License-Identifier: Apache-2.0
# What `make install` puts where, and how other projects find it: pkg-config c7x-compute, find_package(c7x-compute).
include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/c7x-compute)

install(FILES include/c7x_compute_client.h include/c7x_compute_protocol.h include/c7x_inspect.h include/c7x_kernels.h
        include/c7x_module.h include/c7x_runtime.h include/c7x_status.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS c7x_compute c7x_emulator RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS c7x_compute_client c7x_compute_client_static c7x_inspect EXPORT c7x-compute
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES man/c7x_compute.1 man/c7x_emulator.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

# Relocatable: c7x-compute.pc finds the prefix from where it stands.
file(RELATIVE_PATH up_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/c7x-compute.pc.in c7x-compute.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/c7x-compute.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(EXPORT c7x-compute NAMESPACE c7x-compute:: DESTINATION ${config_dir} FILE c7x-compute-targets.cmake)
file(WRITE ${CMAKE_BINARY_DIR}/c7x-compute-config.cmake
"include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(\${CMAKE_CURRENT_LIST_DIR}/c7x-compute-targets.cmake)
")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/c7x-compute-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/c7x-compute-config.cmake ${CMAKE_BINARY_DIR}/c7x-compute-config-version.cmake
        DESTINATION ${config_dir})
