// The three kernels of Reduce, for any way of combining. Device code alone.
//
// A reducer has what block_reduce.cuh asks for, and
//   Value                              what an element is loaded as
//   Identity()                         the state without elements
//   Load(params, at[], values[])       elements at offsets
//   Shift(params, output)              what is taken from every element of an output
//   Take(params, state, value, shift, position, at)   the state with one more element
//   Finish(params, output, state)      writes a result
//   Keep(params, place, state)         writes a partial result
#pragma once

#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/reduce_element.cuh"

namespace tensord::cuda {

// Elements that a thread loads before it combines them.
inline constexpr int kReduceAtOnce = 4;

// Where the elements behind an output begin, and its place in the result; the dimension `skip` is left out.
struct ReduceOffset {
  int64_t in = 0;
  int64_t out = 0;
};
__device__ __forceinline__ ReduceOffset OffsetOfOutput(const ReduceParams& p, int64_t index, int skip) {
  ReduceOffset offset;
  for (int d = p.kept - 1; d >= 0; --d) {
    if (d == skip) continue;
    int64_t at = 0;
    index = DivMod(index, p.dims[d].size, &at);
    offset.in += at * p.dims[d].stride;
    offset.out += at * p.dims[d].out_stride;
  }
  return offset;
}

__device__ __forceinline__ int64_t OffsetOfElement(const ReduceParams& p, int64_t position) {
  int64_t offset = 0;
  for (int d = p.kept + p.reduced - 1; d > p.kept; --d) {
    int64_t at = 0;
    position = DivMod(position, p.dims[d].size, &at);
    offset += at * p.dims[d].stride;
  }
  return offset + position * p.dims[p.kept].stride;
}

// Elements begin + first, begin + first + step, … of one output. They are combined in short runs, which then join:
// rounding errors of a sum do not add up along the whole.
template <class R>
__device__ __forceinline__ typename R::State Accumulate(const R& r, const ReduceParams& p, ReduceOffset output,
                                                        int64_t begin, int64_t end, int first, int step) {
  constexpr int64_t kRun = 64;
  const typename R::Value shift = r.Shift(p, output.out);
  const int64_t stride = static_cast<int64_t>(step) * kReduceAtOnce;
  typename R::State result = r.Identity();
  for (int64_t i = begin + first; i < end;) {
    typename R::State parts[kReduceAtOnce];
    TENSORD_UNROLL
    for (int u = 0; u < kReduceAtOnce; ++u) parts[u] = r.Identity();
    const int64_t run_end = end - i > kRun * stride ? i + kRun * stride : end;
    for (; i < run_end; i += stride) {
      int64_t at[kReduceAtOnce];
      TENSORD_UNROLL
      for (int u = 0; u < kReduceAtOnce; ++u) {
        // Beyond the end the first one is loaded again, and left out below.
        const int64_t position = i + u * static_cast<int64_t>(step);
        at[u] = output.in + OffsetOfElement(p, position < end ? position : i);
      }
      typename R::Value values[kReduceAtOnce];
      r.Load(p, at, values);
      TENSORD_UNROLL
      for (int u = 0; u < kReduceAtOnce; ++u) {
        const int64_t position = i + u * static_cast<int64_t>(step);
        if (position < end) parts[u] = r.Take(p, parts[u], values[u], shift, position, at[u]);
      }
    }
    TENSORD_UNROLL
    for (int half = kReduceAtOnce / 2; half > 0; half /= 2) {
      TENSORD_UNROLL
      for (int u = 0; u < half; ++u) parts[u] = r.Merge(parts[u], parts[u + half]);
    }
    result = r.Merge(result, parts[0]);
  }
  return result;
}

template <class R>
__device__ __forceinline__ void Write(const R& r, const ReduceParams& p, int64_t output, int64_t chunk,
                                      const typename R::State& state) {
  if (p.partial) {
    r.Keep(p, chunk * p.outputs + output, state);
  } else {
    r.Finish(p, output, state);
  }
}

// `width` lanes to an output, one chunk: many outputs of few elements.
template <class R>
__global__ void __launch_bounds__(kReduceThreads, 3) ReduceGroups(const ReduceParams p) {
  const R r(p);
  const int lane = static_cast<int>(threadIdx.x) & (p.width - 1);
  const int groups = kReduceThreads / p.width;
  const int group = static_cast<int>(threadIdx.x) / p.width;
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  for (int64_t base = static_cast<int64_t>(blockIdx.x) * groups; base < p.outputs; base += step) {
    const int64_t output = base + group;
    const bool active = output < p.outputs;
    // Kept dimensions are in the order of the result: output `output` is at place `output`.
    ReduceOffset offset = OffsetOfOutput(p, active ? output : base, -1);
    typename R::State state = Accumulate(r, p, offset, 0, active ? p.count : 0, lane, p.width);
    state = GroupAll(r, state, p.width);
    if (active && lane == 0) Write(r, p, output, 0, state);
  }
}

// A block to a chunk of an output.
template <class R>
__global__ void __launch_bounds__(kReduceThreads, 3) ReduceBlocks(const ReduceParams p) {
  TENSORD_SHARED(typename R::State, parts, kReduceThreads / kWarp);
  const R r(p);
  for (int64_t task = blockIdx.x; task < p.tasks; task += gridDim.x) {
    int64_t chunk = 0;
    const int64_t output = DivMod(task, p.chunks, &chunk);
    const int64_t begin = chunk * p.chunk;
    const int64_t end = begin + p.chunk < p.count ? begin + p.chunk : p.count;
    typename R::State state =
        Accumulate(r, p, OffsetOfOutput(p, output, -1), begin, end, static_cast<int>(threadIdx.x), kReduceThreads);
    state = BlockAll(r, state, parts);
    if (threadIdx.x == 0) Write(r, p, output, chunk, state);
  }
}

// A block to `width` neighbours along a kept dimension, a chunk of each: neighbouring threads read neighbouring
// elements.
template <class R>
__global__ void __launch_bounds__(kReduceThreads, 3) ReduceColumns(const ReduceParams p) {
  TENSORD_SHARED(typename R::State, states, kReduceThreads);
  const R r(p);
  const ReduceDim dim = p.dims[p.along];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread & (p.width - 1);
  const int strand = thread / p.width;
  const int strands = kReduceThreads / p.width;
  for (int64_t task = blockIdx.x; task < p.tasks; task += gridDim.x) {
    int64_t chunk = 0;
    int64_t tile = 0;
    const int64_t outer = DivMod(DivMod(task, p.chunks, &chunk), p.across, &tile);
    const int64_t column = tile * p.width + lane;
    const bool active = column < dim.size.by;
    ReduceOffset offset = OffsetOfOutput(p, outer, p.along);
    if (active) {
      offset.in += column * dim.stride;
      offset.out += column * dim.out_stride;
    }
    const int64_t begin = chunk * p.chunk;
    const int64_t end = begin + p.chunk < p.count ? begin + p.chunk : p.count;
    typename R::State state = Accumulate(r, p, offset, begin, active ? end : begin, strand, strands);
    state = StrandsAll(r, state, states, p.width);
    if (active && strand == 0) Write(r, p, offset.out, chunk, state);
  }
}

template <class R>
cudaError_t LaunchForm(ReduceForm form, const ReduceParams& p, unsigned blocks, cudaStream_t stream) {
  switch (form) {
    case ReduceForm::kGroups:
      // A lane of its own exchanges nothing.
      if (p.width == 1) return TENSORD_LAUNCH_FLAT(ReduceGroups<R>, blocks, kReduceThreads, stream, p);
      return TENSORD_LAUNCH(ReduceGroups<R>, blocks, kReduceThreads, 0, stream, p);
    case ReduceForm::kBlocks:
      return TENSORD_LAUNCH(ReduceBlocks<R>, blocks, kReduceThreads, 0, stream, p);
    case ReduceForm::kColumns:
      break;
  }
  return TENSORD_LAUNCH(ReduceColumns<R>, blocks, kReduceThreads, 0, stream, p);
}

}  // namespace tensord::cuda
