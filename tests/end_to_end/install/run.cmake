# Installs the client library into an empty place, builds the consumer against it alone, and runs it.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    string(REPLACE ";" " " line "${ARGN}")
    message(FATAL_ERROR "${line}\n${output}")
  endif()
  message(STATUS "${output}")
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
step(${CMAKE_COMMAND} --build ${BUILD} --target tensord_client_archive)
step(${CMAKE_COMMAND} --install ${BUILD} --component development --prefix ${WORK}/prefix)

# The public headers stand alone: they reach for nothing that is not installed beside them.
file(GLOB headers ${WORK}/prefix/include/tensord/*)
foreach(header ${headers})
  file(STRINGS ${header} foreign REGEX "#include *[\"<](grpc|google|kernels|server|proto|client)")
  if(foreign)
    message(FATAL_ERROR "${header} includes ${foreign}")
  endif()
endforeach()

set(flags "")
if(SANITIZE)
  string(REPLACE "address" "address,undefined" flags "-fsanitize=${SANITIZE}")
endif()
step(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${COMPILER}
  "-DCMAKE_CXX_FLAGS=${flags}")
step(${CMAKE_COMMAND} --build ${WORK}/build)
step(${WORK}/build/consumer)
