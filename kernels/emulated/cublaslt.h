// What tests may tell the fake cuBLASLt (cublaslt.cc): that it cannot be loaded, knows no algorithm, wants a workspace,
// or fails.
//
//   SetCublasLt({.workspace_bytes = 1 << 20});
//   …
//   SetCublasLt({});
//
// Thread safe. The controls are the process's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tensord::emulated {

struct CublasLtControls {
  bool absent = false;               // the library is not found: only before the first product of a CublasLt object
  bool no_algorithm = false;         // the heuristic finds none
  bool no_bias = false;              // none that adds a bias
  bool only_with_workspace = false;  // none where the workspace allowed is smaller than workspace_bytes
  size_t workspace_bytes = 0;        // what an algorithm wants where it may have it
  int fail_heuristic = 0;            // a cuBLAS status instead of an answer
  int fail_matmul = 0;
};
void SetCublasLt(const CublasLtControls& controls);

struct CublasLtCounts {
  uint64_t heuristics = 0;
  uint64_t products = 0;
  uint64_t alive = 0;  // handles, descriptors, layouts and preferences not destroyed
  bool tf32 = false;   // the last product was allowed TF32
};
CublasLtCounts CountCublasLt();

}  // namespace tensord::emulated
