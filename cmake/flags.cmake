# Compiler and linker flags of everything in this project, as one interface target.
add_library(makarna_flags INTERFACE)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
string(REPLACE "-O2" "-O3" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")

target_compile_options(makarna_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -ffp-contract=off # one answer everywhere: only the fused operations that are written as such
    -fno-math-errno   # sqrt is one instruction, not a call
    -ffunction-sections -fdata-sections)
target_compile_definitions(makarna_flags INTERFACE _FILE_OFFSET_BITS=64) # images above 2 GB on 32-bit machines
if(MAKARNA_WERROR)
    target_compile_options(makarna_flags INTERFACE -Werror)
endif()
target_link_options(makarna_flags INTERFACE -Wl,--gc-sections)
if(MAKARNA_STATIC)
    target_link_options(makarna_flags INTERFACE -static)
endif()
if(MAKARNA_SANITIZE)
    target_compile_options(makarna_flags INTERFACE
        -fsanitize=${MAKARNA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(makarna_flags INTERFACE -fsanitize=${MAKARNA_SANITIZE})
endif()
