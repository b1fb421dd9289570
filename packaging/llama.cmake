# llama-cpp-2 takes llama-cpp-sys-2 with its feature `common`: llama.cpp's command line, HTTP server and parsers of tool
# calls, more than half of its C++. Nothing here links them. CMake reads this file after llama.cpp's `project()`.
if(PROJECT_NAME STREQUAL "llama.cpp")
  set(LLAMA_BUILD_COMMON OFF CACHE BOOL "" FORCE)
endif()
