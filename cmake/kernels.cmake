# One source file per instruction set in src/kernels. What the target cannot have is left out of the
# build; what it may have gets its own flags and the definition MK_HAVE_<SET>, for the table of sets.
include(CheckCSourceCompiles)

# Whether the compiler, with `flags` added, accepts `code`.
function(makarna_compiles code flags result)
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    set(CMAKE_REQUIRED_FLAGS "${flags}")
    set(CMAKE_REQUIRED_QUIET ON)
    check_c_source_compiles("${code}" ${result})
    set(${result} ${${result}} PARENT_SCOPE)
endfunction()

# Adds kernel set `name` to `target` if its file exists and the compiler can make it for this machine.
function(makarna_kernel_set target name architecture flags)
    set(file ${PROJECT_SOURCE_DIR}/src/kernels/${name}.c)
    string(TOUPPER ${name} upper)
    makarna_compiles("#if !(${architecture})\n#error other architecture\n#endif\nint mk_dummy;" "${flags}"
        MAKARNA_${upper})
    if(EXISTS ${file} AND MAKARNA_${upper})
        separate_arguments(options UNIX_COMMAND "${flags}")
        set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${options}")
        target_compile_definitions(${target} PRIVATE MK_HAVE_${upper}=1)
    else()
        get_target_property(sources ${target} SOURCES)
        list(REMOVE_ITEM sources ${file})
        set_target_properties(${target} PROPERTIES SOURCES "${sources}")
    endif()
endfunction()

function(makarna_choose_kernels target)
    makarna_kernel_set(${target} neon "defined __ARM_NEON && (defined __aarch64__ || defined __ARM_FEATURE_FMA)" "")
    makarna_kernel_set(${target} dotprod "defined __aarch64__ && defined __ARM_FEATURE_DOTPROD"
        "-march=armv8.2-a+dotprod")
    makarna_kernel_set(${target} i8mm "defined __aarch64__ && defined __ARM_FEATURE_MATMUL_INT8"
        "-march=armv8.2-a+dotprod+i8mm")
    makarna_kernel_set(${target} avx2 "defined __x86_64__ && defined __AVX2__" "-mavx2 -mfma -mf16c")
    makarna_kernel_set(${target} avx512vnni "defined __x86_64__ && defined __AVX512VNNI__"
        "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c")
endfunction()
