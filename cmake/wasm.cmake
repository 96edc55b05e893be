# WebAssembly with WASI, with Debian's clang and wasi-libc: no threads, files are read instead of mapped.
# scripts/build-sysroot-wasm compiles the libraries.
set(CMAKE_SYSTEM_NAME WASI)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang)
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_ASM_COMPILER_TARGET wasm32-wasi)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}") # Platform/WASI.cmake

get_filename_component(sysroot "${CMAKE_CURRENT_LIST_DIR}/../build/sysroot/wasm32" ABSOLUTE)
set(ENV{PKG_CONFIG_LIBDIR} "${sysroot}/lib/pkgconfig")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
