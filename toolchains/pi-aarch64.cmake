# 64-bit Raspberry Pi OS and any other ARMv8-A Linux: Pi Zero 2 W, 3, 4, 5. The base is plain ARMv8-A;
# kernels for later cores are compiled with their own flags and chosen at run time.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(makarna_compilers aarch64-linux-gnu-gcc)
if(CMAKE_HOST_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    list(APPEND makarna_compilers gcc cc) # the machine's own compiler is the right one
endif()
find_program(MAKARNA_CROSS_CC NAMES ${makarna_compilers} NAMES_PER_DIR)
if(NOT MAKARNA_CROSS_CC)
    message(FATAL_ERROR "no aarch64-linux-gnu-gcc: apt-get install gcc-aarch64-linux-gnu")
endif()
set(CMAKE_C_COMPILER ${MAKARNA_CROSS_CC})
# The schedule for the in-order A53 costs the larger, out-of-order cores nothing.
set(CMAKE_C_FLAGS_INIT "-march=armv8-a -mtune=cortex-a53 -mno-outline-atomics")

find_program(MAKARNA_QEMU NAMES qemu-aarch64 qemu-aarch64-static)
if(MAKARNA_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${MAKARNA_QEMU} -cpu cortex-a53)
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
