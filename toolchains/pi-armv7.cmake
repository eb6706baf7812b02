# 32-bit Raspberry Pi OS on ARMv7 with NEON and VFPv4 (Cortex-A7 and later): Pi 2, 3, 4, Zero 2 W.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR armv7l)

find_program(MAKARNA_CROSS_CC NAMES arm-linux-gnueabihf-gcc)
if(NOT MAKARNA_CROSS_CC)
    message(FATAL_ERROR "no arm-linux-gnueabihf-gcc: apt-get install gcc-arm-linux-gnueabihf")
endif()
set(CMAKE_C_COMPILER ${MAKARNA_CROSS_CC})
set(CMAKE_C_FLAGS_INIT "-march=armv7-a -mfpu=neon-vfpv4 -mfloat-abi=hard -mtune=cortex-a7")

find_program(MAKARNA_QEMU NAMES qemu-arm qemu-arm-static)
if(MAKARNA_QEMU)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${MAKARNA_QEMU} -cpu cortex-a7)
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
