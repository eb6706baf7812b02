# Pi 1 and Zero (ARM1176, ARMv6 with VFPv2, no NEON). Debian's armel compiler and C library are the ones
# that keep to ARMv6; its armhf is ARMv7. Linked statically, the result runs on Raspberry Pi OS too.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR armv6l)

find_program(MAKARNA_CROSS_CC NAMES arm-linux-gnueabi-gcc)
if(NOT MAKARNA_CROSS_CC)
    message(FATAL_ERROR "no arm-linux-gnueabi-gcc: apt-get install gcc-arm-linux-gnueabi")
endif()
set(CMAKE_C_COMPILER ${MAKARNA_CROSS_CC})
set(CMAKE_C_FLAGS_INIT "-march=armv6 -marm -mfpu=vfp -mfloat-abi=softfp -mtune=arm1176jzf-s")

find_program(MAKARNA_QEMU NAMES qemu-arm qemu-arm-static)
if(MAKARNA_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${MAKARNA_QEMU} -cpu arm1176)
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
