// TENSORD_HD: what every functor's function carries.
//
// Device code: callable on host and device. Host code: always inlined, because loops are compiled for several
// instruction sets and an out-of-line copy made by one of them could be called from all.
//
// Standard library only: device code includes this file.
#pragma once

#ifdef __CUDACC__
#define TENSORD_HD __host__ __device__ inline
#else
#define TENSORD_HD [[gnu::always_inline]] inline
#endif
