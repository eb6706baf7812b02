# Target "demo": fetch SmolLM2, quantize it, write a config, ask a question. What is there already is
# kept, so that a second run goes straight to the answer.
if(NOT TARGET makarna-quant OR CMAKE_CROSSCOMPILING)
    return()
endif()
set(smollm2_source ${MAKARNA_DOWNLOADS}/SmolLM2-135M-Instruct.Q4_1.gguf)
set(smollm2_image ${PROJECT_BINARY_DIR}/demo/smollm2-135m-q4.mkn)
configure_file(cmake/demo.conf.in demo/demo.conf @ONLY)

add_custom_command(OUTPUT ${smollm2_source}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${MAKARNA_DOWNLOADS} -P ${PROJECT_SOURCE_DIR}/cmake/scripts/fetch_smollm2.cmake
    COMMENT "Fetching SmolLM2-135M-Instruct"
    VERBATIM USES_TERMINAL)
add_custom_command(OUTPUT ${smollm2_image}
    COMMAND makarna-quant ${smollm2_source} -o ${smollm2_image} --type q4
    DEPENDS ${smollm2_source} makarna-quant
    COMMENT "Quantizing it to q4"
    VERBATIM USES_TERMINAL)
add_custom_target(demo
    COMMAND makarna run -c ${PROJECT_BINARY_DIR}/demo/demo.conf "What is the capital of France, and what is it known for?"
    DEPENDS ${smollm2_image} makarna
    COMMENT "makarna run -c ${PROJECT_BINARY_DIR}/demo/demo.conf \"What is the capital of France, and what is it known for?\""
    VERBATIM USES_TERMINAL)
