# Programs, library, header, pkg-config file, board configs.
install(TARGETS libmakarna ARCHIVE)
install(FILES include/makarna.h TYPE INCLUDE)
foreach(program makarna makarna-quant)
    if(TARGET ${program})
        install(TARGETS ${program} RUNTIME)
    endif()
endforeach()

# The prefix is known only when installing (cmake --install --prefix), so the file is made then.
set(pc ${PROJECT_BINARY_DIR}/makarna.pc)
install(CODE "
    set(PROJECT_VERSION \"${PROJECT_VERSION}\")
    set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
    set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
    configure_file(\"${PROJECT_SOURCE_DIR}/cmake/makarna.pc.in\" \"${pc}\" @ONLY)")
install(FILES ${pc} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY boards/ DESTINATION ${CMAKE_INSTALL_DATADIR}/makarna/boards)
install(FILES LICENSE TYPE DOC)
install(FILES README.md TYPE DOC OPTIONAL)
