// Private to this folder (and to tests that start servers of their own).
#pragma once

namespace tensord {

// Keeps gRPC's process-wide queue of callbacks alive from the first call to the end of the process. gRPC 1.51 ends that
// queue with the last channel or server that uses it and makes a new one for the next; a thread of the old one may then
// give back a reference that is gone, and the process aborts ("assertion failed: prior > 0"). Programs that connect,
// close and connect again would meet it. Thread safe; quick after the first time.
void KeepCallbackQueue();

}  // namespace tensord
