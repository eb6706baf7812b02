# makarna_subbuild(<preset> [options of cmake ...])
# A target of its own that configures and builds another preset of this project, in
# <build>/cross/<preset>. Its programs are run by the tests of this build.
function(makarna_subbuild preset)
    set(folder ${PROJECT_BINARY_DIR}/cross/${preset})
    add_custom_target(cross-${preset} ALL
        COMMAND ${CMAKE_COMMAND} --preset ${preset} -B ${folder} --log-level=WARNING
            -DMAKARNA_WERROR=${MAKARNA_WERROR} ${ARGN}
        COMMAND ${CMAKE_COMMAND} --build ${folder}
        WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
        COMMENT "Building ${preset} in ${folder}"
        VERBATIM USES_TERMINAL)
endfunction()

# makarna_require_program(<Debian package> <names>...)
# Finds a program and puts its path into `program`; says before anything is built what is missing.
function(makarna_require_program package)
    list(GET ARGN 0 name)
    string(MAKE_C_IDENTIFIER "MAKARNA_FOUND_${name}" found)
    find_program(${found} NAMES ${ARGN})
    if(NOT ${found})
        message(FATAL_ERROR "the tests for all boards need ${name}: apt-get install ${package}")
    endif()
    set(program ${${found}} PARENT_SCOPE)
endfunction()
