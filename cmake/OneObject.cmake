# An archive whose objects become one, without debug information: what many of them have of templates and inline functions is
# there once, and names that are hidden are no longer there to be met by a program's.
#   cmake -D archive=FILE -D strip=PROGRAM -D linker=PROGRAM -D objcopy=PROGRAM -D ar=PROGRAM -P OneObject.cmake
set(folder "${archive}.folder")
set(object "${folder}/libcufile.o")
file(MAKE_DIRECTORY "${folder}")
foreach(command
    "${strip}|--strip-debug|${archive}"
    "${linker}|-r|-o|${object}|--whole-archive|${archive}"
    "${objcopy}|--localize-hidden|${object}"
    "${strip}|--strip-unneeded|${object}"
    "${CMAKE_COMMAND}|-E|rm|${archive}"
    "${ar}|rcsD|${archive}|${object}")
  string(REPLACE "|" ";" command "${command}")
  execute_process(COMMAND ${command} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(REMOVE_RECURSE "${folder}")
