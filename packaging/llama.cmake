# llama-cpp-2 takes llama-cpp-sys-2 with its feature `common`: llama.cpp's command line, HTTP server and parsers of tool
# calls, more than half of its C++. Nothing here links them. CMake reads this file after each `project()`.
if(PROJECT_NAME STREQUAL "llama.cpp")
  set(LLAMA_BUILD_COMMON OFF CACHE BOOL "" FORCE)
  # It runs once for each token. What runs for each number of the model is in ggml.
  set(CMAKE_C_FLAGS_RELEASE "-O1 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
elseif(PROJECT_NAME STREQUAL "ggml")
  set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
endif()
