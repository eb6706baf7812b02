# Which tests run where. A suite is one build run on one CPU; its tests are <suite>/unit/<program>,
# <suite>/kernels/<program>, <suite>/system/<test>. Suites and folders are CTest labels too.

set(images ${PROJECT_BINARY_DIR}/images)
set(cross ${PROJECT_BINARY_DIR}/cross)
set(system ${PROJECT_SOURCE_DIR}/tests/system)

# makarna_test(<name> COMMAND ... [LABELS ...] [NEEDS <fixtures>] [GIVES <fixture>] [ENVIRONMENT ...])
function(makarna_test name)
    cmake_parse_arguments(arg "" "" "COMMAND;LABELS;NEEDS;GIVES;ENVIRONMENT" ${ARGN})
    add_test(NAME ${name} COMMAND ${arg_COMMAND})
    set_tests_properties(${name} PROPERTIES
        SKIP_RETURN_CODE 77 TIMEOUT 900 LABELS "${arg_LABELS}" ENVIRONMENT "MK_IMAGES=${images};${arg_ENVIRONMENT}"
        FIXTURES_REQUIRED "${arg_NEEDS}" FIXTURES_SETUP "${arg_GIVES}")
endfunction()

# makarna_suite(<suite> <folder of a build> TESTS <files> [EMULATOR ...] [ISA <kernel set>] [SANITIZED])
function(makarna_suite suite build)
    cmake_parse_arguments(arg "SANITIZED" "ISA" "TESTS;EMULATOR" ${ARGN})
    foreach(file ${arg_TESTS})
        cmake_path(GET file STEM name)
        cmake_path(GET file PARENT_PATH folder)
        cmake_path(GET folder FILENAME folder)
        set(isa)
        if(folder STREQUAL kernels AND arg_ISA)
            set(isa --isa ${arg_ISA})
        endif()
        set(fixtures)
        if(folder STREQUAL golden)
            set(fixtures NEEDS smollm2-q8 smollm2-q4 stories260k-q8 stories260k-q4)
        endif()
        makarna_test(${suite}/${folder}/${name} LABELS ${suite} ${folder} ${fixtures}
            COMMAND ${arg_EMULATOR} ${build}/tests/${folder}/${name} ${isa})
    endforeach()
    if(NOT arg_SANITIZED)
        makarna_test(${suite}/system/symbols LABELS ${suite} system COMMAND ${system}/symbols.sh ${build}/libmakarna.a)
    endif()
endfunction()

# makarna_image(<name> <source> [LIMIT <bytes>] [OPTIONS ...])
# The fixture <name>: an image in ${images}, made by this machine's makarna-quant in at most LIMIT bytes of RAM.
function(makarna_image name source)
    cmake_parse_arguments(arg "" "LIMIT" "OPTIONS" ${ARGN})
    if(NOT arg_LIMIT OR MAKARNA_SANITIZE)
        set(arg_LIMIT 0)
    endif()
    makarna_test(images/${name} LABELS images GIVES ${name}
        COMMAND ${system}/make_image.sh $<TARGET_FILE:system_watch> ${arg_LIMIT} ${images}/${name}.mkn ${source}
            $<TARGET_FILE:makarna-quant> ${arg_OPTIONS})
endfunction()

# makarna_digest_reference(<image> <tokens>)
# makarna_digest(<suite> <image> <tokens> "<cases>" <command ...>)
# One answer: the logits of every case have the same bits as those of the scalar kernels on this machine.
function(makarna_digest_reference image tokens)
    makarna_test(images/${image}-digest LABELS images
        COMMAND ${system}/digest.sh reference ${images}/${image}.digest ${images}/${image}.mkn ${tokens}
            $<TARGET_FILE:makarna>
        NEEDS ${image} GIVES ${image}-digest)
endfunction()
function(makarna_digest suite image tokens cases)
    makarna_test(${suite}/digest/${image} LABELS ${suite} digest
        COMMAND ${system}/digest.sh compare ${images}/${image}.digest ${images}/${image}.mkn ${tokens} ${cases} ${ARGN}
        NEEDS ${image}-digest)
    if(image MATCHES smollm2)
        set_tests_properties(${suite}/digest/${image} PROPERTIES COST 100) # the longest begin first
    endif()
endfunction()

# makarna_damage(<suite> <folder of a sanitized build>)
# Damaged and hostile images and sources, see tests/fuzz. Only an exit status of 1 is a proper refusal, so what
# the sanitizers find ends with another.
set(sanitizers "ASAN_OPTIONS=exitcode=99:detect_leaks=0:allocator_may_return_null=1" "UBSAN_OPTIONS=exitcode=99:print_stacktrace=1")
function(makarna_damage suite build)
    set(damage ${build}/tests/fuzz/damage_file)
    set(quantizer ${build}/makarna-quant)
    set(models ${shared}/models)
    foreach(image ${small_images})
        makarna_test(${suite}/damage/${image} LABELS ${suite} damage
            COMMAND ${build}/tests/fuzz/damage_image ${images}/${image}.mkn 1000
            NEEDS ${image} ENVIRONMENT ${sanitizers})
    endforeach()
    makarna_test(${suite}/damage/image-file LABELS ${suite} damage
        COMMAND ${damage} ${images}/stories260k-q4.mkn 200 3000 always ${build}/tests/damage-image
            -- ${build}/makarna info {}
        NEEDS stories260k-q4 ENVIRONMENT ${sanitizers})
    makarna_test(${suite}/damage/llama2c LABELS ${suite} damage
        COMMAND ${damage} ${models}/stories260K.bin 100 64 cut ${build}/tests/damage-llama2c
            -- ${quantizer} {} --tokenizer ${models}/tok512.bin --type q8 -o {out}
        ENVIRONMENT ${sanitizers})
    makarna_test(${suite}/damage/llama2c-tokenizer LABELS ${suite} damage
        COMMAND ${damage} ${models}/tok512.bin 100 0 cut ${build}/tests/damage-tokenizer
            -- ${quantizer} ${models}/stories260K.bin --tokenizer {} --type q8 -o {out}
        ENVIRONMENT ${sanitizers})
    foreach(vocabulary gpt-2 llama-spm)
        makarna_test(${suite}/damage/gguf-${vocabulary} LABELS ${suite} damage
            COMMAND ${damage} ${shared}/vectors/ggml-vocab-${vocabulary}.gguf 100 0 cut ${build}/tests/damage-${vocabulary}
                -- ${quantizer} {} --vocab-only -o {out}
            ENVIRONMENT ${sanitizers})
    endforeach()
    if(TARGET tools_make_tiny_model)
        makarna_test(${suite}/damage/gguf-tiny LABELS ${suite} damage
            COMMAND ${damage} ${images}/tiny.gguf 200 6000 cut ${build}/tests/damage-tiny
                -- ${quantizer} {} --type q8 -o {out}
            NEEDS tiny ENVIRONMENT ${sanitizers})
    endif()
endfunction()

# makarna_cases(<variable> <kernel sets>): every set with 1, 2 and 4 threads, batches of 1, 7 and 64, both KV types.
function(makarna_cases variable)
    set(cases)
    foreach(isa ${ARGN})
        foreach(shape 1:1:q8 1:7:q4 2:64:q8 2:1:q4 4:7:q8 4:64:q4 1:64:q8 2:7:q8 4:1:q8)
            string(APPEND cases "${isa}:${shape} ")
        endforeach()
    endforeach()
    set(${variable} "${cases}" PARENT_SCOPE)
endfunction()

if(CMAKE_CROSSCOMPILING)
    makarna_suite(${CMAKE_SYSTEM_PROCESSOR} ${PROJECT_BINARY_DIR} TESTS ${unit_tests} ${kernels_tests}
        EMULATOR ${CMAKE_CROSSCOMPILING_EMULATOR})
    return()
endif()

if(MAKARNA_SANITIZE)
    set(sanitized SANITIZED)
endif()
makarna_suite(host ${PROJECT_BINARY_DIR} ${sanitized}
    TESTS ${unit_tests} ${kernels_tests} ${quant_tests} ${golden_tests})
if(NOT TARGET makarna-quant)
    return()
endif()

# ---- Images: stories260K and a tiny model with everything awkward, in full; SmolLM2 where it counts --------

makarna_test(images/smollm2 LABELS images COMMAND ${system}/fetch_smollm2.sh ${CMAKE_COMMAND} ${MAKARNA_DOWNLOADS}
    GIVES smollm2)
# The largest tensor of the source is the embedding, 49152 x 576 as Q8_0; above it the quantizer may take 100 MB.
math(EXPR quantizer_limit "49152 * 576 / 32 * 34 + 100 * 1000 * 1000")
foreach(type q8 q4)
    makarna_image(stories260k-${type} ${shared}/models/stories260K.bin
        OPTIONS --tokenizer ${shared}/models/tok512.bin --type ${type})
    makarna_image(smollm2-${type} ${MAKARNA_DOWNLOADS}/SmolLM2-135M-Instruct.Q4_1.gguf
        LIMIT ${quantizer_limit} OPTIONS --type ${type})
    set_property(TEST images/smollm2-${type} APPEND PROPERTY FIXTURES_REQUIRED smollm2)
    set(digest_images stories260k-${type})
    if(TARGET tools_make_tiny_model)
        makarna_image(tiny-${type} ${images}/tiny.gguf OPTIONS --type ${type})
        set_property(TEST images/tiny-${type} APPEND PROPERTY FIXTURES_REQUIRED tiny)
        list(APPEND digest_images tiny-${type})
    endif()
    foreach(image ${digest_images})
        makarna_digest_reference(${image} 100)
        list(APPEND small_images ${image})
    endforeach()
    makarna_digest_reference(smollm2-${type} 64)
endforeach()
if(TARGET tools_make_tiny_model)
    makarna_test(images/tiny LABELS images COMMAND ${system}/make_tiny.sh $<TARGET_FILE:tools_make_tiny_model>
        ${images}/tiny.gguf GIVES tiny)
endif()

# ---- The programs on this machine ------------------------------------------------------------------------

makarna_cases(cases every)
foreach(image ${small_images})
    makarna_digest(host ${image} 100 "${cases}" $<TARGET_FILE:makarna>)
endforeach()
foreach(type q8 q4)
    makarna_digest(host smollm2-${type} 64 "every:2:64:q8 best:1:1:q8 best:2:7:q4 best:4:64:q8" $<TARGET_FILE:makarna>)
endforeach()

if(MAKARNA_SANITIZE)
    makarna_damage(host ${PROJECT_BINARY_DIR})
else()
    foreach(image stories260k-q4 smollm2-q4)
        makarna_test(host/system/contract-${image} LABELS host system
            COMMAND ${system}/contract.sh ${PROJECT_BINARY_DIR}/tests/system $<TARGET_FILE:makarna> ${images}/${image}.mkn
            NEEDS ${image})
    endforeach()
    makarna_test(host/system/install LABELS host system
        COMMAND ${system}/install.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
endif()
makarna_test(host/system/memory_cap LABELS host system
    COMMAND ${system}/memory_cap.sh $<TARGET_FILE:makarna> ${images}/smollm2-q4.mkn 8192 8M
    NEEDS smollm2-q4)
set(stories_options ${shared}/models/stories260K.bin --tokenizer ${shared}/models/tok512.bin --type q4)
foreach(threads 1 3)
    makarna_test(host/system/same_image-${threads} LABELS host system NEEDS stories260k-q4
        COMMAND ${system}/same_image.sh ${images}/stories260k-q4.mkn $<TARGET_FILE:makarna-quant> ${stories_options}
            --threads ${threads})
endforeach()
makarna_test(host/system/boards LABELS host system NEEDS smollm2-q4
    COMMAND ${system}/boards.sh ${PROJECT_SOURCE_DIR}/boards $<TARGET_FILE:makarna> ${images}/smollm2-q4.mkn)
makarna_test(host/cli/cli LABELS host cli NEEDS stories260k-q4
    COMMAND ${PROJECT_SOURCE_DIR}/tests/cli/cli.sh $<TARGET_FILE:makarna> ${images}/stories260k-q4.mkn)
makarna_test(host/system/packages LABELS host system
    COMMAND ${system}/packages.sh ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/.ci/run)

# ---- Every board, emulated, and the sanitizers -----------------------------------------------------------

if(NOT MAKARNA_CROSS_TESTS)
    return()
endif()
include(${PROJECT_SOURCE_DIR}/cmake/subbuild.cmake)
makarna_require_program(gcc-arm-linux-gnueabihf arm-linux-gnueabihf-gcc)
makarna_require_program(gcc-arm-linux-gnueabi arm-linux-gnueabi-gcc)
if(NOT CMAKE_HOST_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    makarna_require_program(gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc)
endif()
makarna_require_program(qemu-user qemu-arm qemu-arm-static)
set(qemu_arm ${program})
makarna_require_program(qemu-user qemu-aarch64 qemu-aarch64-static)
set(qemu_aarch64 ${program})
makarna_subbuild(pi-aarch64 -DMAKARNA_QUANTIZER=ON) # the boards do not need it: it must make the same images there
makarna_subbuild(pi-armv6 -DMAKARNA_QUANTIZER=ON)
makarna_subbuild(pi-armv7)
makarna_subbuild(asan)
makarna_subbuild(tsan)

# makarna_board(<suite> <preset> "<kernel sets, the one to insist on last>" <emulator ...>)
function(makarna_board suite preset sets)
    list(GET sets -1 best)
    set(build ${cross}/${preset})
    makarna_suite(${suite} ${build} TESTS ${unit_tests} ${kernels_tests} EMULATOR ${ARGN} ISA ${best})
    makarna_cases(cases ${sets})
    foreach(image ${small_images})
        makarna_digest(${suite} ${image} 100 "${cases}" ${ARGN} ${build}/makarna)
    endforeach()
    makarna_digest(${suite} smollm2-q4 64 ${best}:1:64:q8 ${ARGN} ${build}/makarna)
    if(preset STREQUAL pi-aarch64) # the 32-bit emulation takes minutes
        makarna_digest(${suite} smollm2-q8 64 ${best}:1:64:q8 ${ARGN} ${build}/makarna)
    endif()
endfunction()

set(newest dotprod)
if(EXISTS ${PROJECT_SOURCE_DIR}/src/kernels/i8mm.c)
    set(newest i8mm)
endif()
makarna_board(a53 pi-aarch64 "scalar;neon" ${qemu_aarch64} -cpu cortex-a53)
makarna_board(a76 pi-aarch64 "neon;dotprod" ${qemu_aarch64} -cpu cortex-a76)
makarna_board(max pi-aarch64 "${newest}" ${qemu_aarch64} -cpu max,pauth-impdef=on)
makarna_board(armv7 pi-armv7 "scalar;neon" ${qemu_arm} -cpu cortex-a7)
makarna_board(armv6 pi-armv6 "scalar" ${qemu_arm} -cpu arm1176)
makarna_test(a53/system/size LABELS a53 system
    COMMAND ${system}/size.sh aarch64-linux-gnu-strip ${cross}/pi-aarch64/makarna 1000000)
makarna_test(a53/system/missing_isa LABELS a53 system
    COMMAND ${system}/missing_isa.sh ${images}/stories260k-q4.mkn dotprod ${qemu_aarch64} -cpu cortex-a53
        ${cross}/pi-aarch64/makarna
    NEEDS stories260k-q4)

makarna_test(a53/system/same_image LABELS a53 system NEEDS stories260k-q4
    COMMAND ${system}/same_image.sh ${images}/stories260k-q4.mkn ${qemu_aarch64} -cpu cortex-a53
        ${cross}/pi-aarch64/makarna-quant ${stories_options})
makarna_test(armv6/system/same_image LABELS armv6 system NEEDS stories260k-q4
    COMMAND ${system}/same_image.sh ${images}/stories260k-q4.mkn ${qemu_arm} -cpu arm1176
        ${cross}/pi-armv6/makarna-quant ${stories_options})

makarna_suite(asan ${cross}/asan SANITIZED TESTS ${unit_tests} ${kernels_tests} ${quant_tests})
makarna_damage(asan ${cross}/asan)
makarna_test(asan/cli/cli LABELS asan cli NEEDS stories260k-q4 ENVIRONMENT ${sanitizers}
    COMMAND ${PROJECT_SOURCE_DIR}/tests/cli/cli.sh ${cross}/asan/makarna ${images}/stories260k-q4.mkn)
foreach(image ${small_images})
    makarna_digest(asan ${image} 100 "every:2:7:q8 every:1:64:q4" ${cross}/asan/makarna)
endforeach()

# The thread sanitizer wants a layout of memory that newer kernels' address randomization may not leave it.
set(no_randomization)
execute_process(COMMAND setarch -R true RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
if(NOT failed)
    set(no_randomization setarch -R)
endif()
set(threaded ${unit_tests})
list(FILTER threaded INCLUDE REGEX "/test_[^/]*(pool|thread|context|decoder|forward|eval)[^/]*$")
makarna_suite(tsan ${cross}/tsan SANITIZED EMULATOR ${no_randomization} TESTS ${threaded})
makarna_digest(tsan stories260k-q4 100 "best:4:7:q8 best:3:64:q4" ${no_randomization} ${cross}/tsan/makarna)
