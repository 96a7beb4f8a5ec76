# backfeed_profile(TARGET FILE [LOCK FILE]) builds a target's C and C++ code with a profile that `backfeed emit llvm`
# (clang) or `backfeed emit gcc` (gcc) wrote, and keeps what the next recording needs: lines and discriminators.
#
#   include(cmake/backfeed.cmake)
#   add_executable(app main.c)
#   backfeed_profile(app prof/app.prof)
#
# Call it after the target has its sources. A changed profile rebuilds them; where the file is not there yet, the target
# is built without. A path with {hash} is looked up in the lock, backfeed.lock of the project's directory unless named.
#
# backfeed_order(TARGET FILE) links with the order of functions that `backfeed layout --for lld` wrote.
#
# Needs CMake 3.19.

function(_backfeed_find out file lock)
  if(file MATCHES "{hash}")
    set(name "")
    if(EXISTS "${lock}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${lock}")
      file(READ "${lock}" text)
      string(JSON schema GET "${text}" schema)
      if(NOT schema STREQUAL "backfeed.lock/1")
        message(FATAL_ERROR "${lock}: schema ${schema}, not backfeed.lock/1")
      endif()
      get_filename_component(dir "${lock}" DIRECTORY)
      string(JSON n LENGTH "${text}" outputs)
      set(i 0)
      while(i LESS n)
        string(JSON path GET "${text}" outputs ${i} path)
        get_filename_component(whole "${path}" ABSOLUTE BASE_DIR "${dir}")
        if(whole STREQUAL file)
          string(JSON name GET "${text}" outputs ${i} name)
        endif()
        math(EXPR i "${i} + 1")
      endwhile()
      if(name STREQUAL "")
        message(FATAL_ERROR "${lock} has no output ${file}")
      endif()
    endif()
    get_filename_component(dir "${file}" DIRECTORY)
    set(file "${dir}/${name}")
  endif()
  set(${out} "${file}" PARENT_SCOPE)
endfunction()

function(backfeed_profile target file)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "LOCK" "")
  if(NOT arg_LOCK)
    set(arg_LOCK "${PROJECT_SOURCE_DIR}/backfeed.lock")
  endif()
  get_filename_component(file "${file}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  get_filename_component(lock "${arg_LOCK}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  _backfeed_find(file "${file}" "${lock}")

  set(clang "$<COMPILE_LANG_AND_ID:C,Clang>,$<COMPILE_LANG_AND_ID:CXX,Clang>")
  set(gcc "$<COMPILE_LANG_AND_ID:C,GNU>,$<COMPILE_LANG_AND_ID:CXX,GNU>")
  target_compile_options(${target} PRIVATE
    "$<$<OR:${clang}>:-gline-tables-only;-fdebug-info-for-profiling>"
    "$<$<OR:${gcc}>:-g>")
  if(NOT EXISTS "${file}" OR IS_DIRECTORY "${file}")
    message(STATUS "backfeed: ${file} is not there yet: ${target} is built without a profile")
    return()
  endif()
  target_compile_options(${target} PRIVATE
    "$<$<OR:${clang}>:-fprofile-sample-use=${file}>"
    "$<$<OR:${gcc}>:-fauto-profile=${file};-fno-tracer>")
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "\\$<")
      set_property(SOURCE "${source}" APPEND PROPERTY OBJECT_DEPENDS "${file}")
    endif()
  endforeach()
endfunction()

function(backfeed_order target file)
  get_filename_component(file "${file}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE -ffunction-sections)
  if(NOT EXISTS "${file}")
    message(STATUS "backfeed: ${file} is not there yet: ${target} is linked without an order")
    return()
  endif()
  target_link_options(${target} PRIVATE -fuse-ld=lld "LINKER:--symbol-ordering-file=${file}" LINKER:--no-warn-symbol-ordering)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${file}")
endfunction()
