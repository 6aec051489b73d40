// FindExtremes: argmax and argmin.
//
// The extreme value of a tile is found first, by the loops of max and min, and its place afterwards in the one tile
// that has it.
#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cpu/reduce_plan.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {
namespace {

constexpr int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Finder {
 public:
  Finder(const ReducePlan& plan, Combine combine, Lane lane, bool last, int64_t* out, Context& context)
      : plan_(plan),
        inner_(plan.reduced.back()),
        last_(last),
        out_(out),
        context_(context),
        item_(static_cast<int64_t>(ItemSize(plan.dtype))),
        lane_size_(static_cast<int64_t>(LaneSize(lane))),
        in_place_(IsLane(plan.dtype, lane, Reading::kValue)),
        parallel_(plan.outputs * plan.count >= kParallelElements) {
    const ReduceLoops& loops = GetReduceLoops();
    const auto c = static_cast<size_t>(combine);
    const auto l = static_cast<size_t>(lane);
    load_ = loops.load[static_cast<size_t>(plan.dtype)][l];
    rows_ = loops.rows[c][l];
    columns_ = loops.arg_columns[c][l];
    beats_ = loops.beats[c][l];
    find_ = loops.find[l];
  }

  absl::Status Run() {
    if (plan_.outputs == 0) return absl::OkStatus();
    const ReduceOrder order = ChooseOrder(plan_);
    // Few columns leave vector units idle.
    constexpr int64_t kFewColumns = 8;
    if (order.columns && (plan_.kept[order.along].size >= kFewColumns || plan_.count < kTile)) {
      return RunColumns(order.along);
    }
    if (plan_.count <= kTile) {
      RunShortRows();
      return absl::OkStatus();
    }
    return RunLongRows();
  }

 private:
  struct Buffer {
    alignas(64) char bytes[kTile * 8];
  };
  struct Partial {
    alignas(8) char value[8];
    int64_t index;
  };

  // n elements from `position` on of one output, as lanes.
  const char* Block(Buffer& buffer, const char* base, int64_t position, int64_t n) const {
    const char* from = base + position * inner_.stride * item_;
    if (in_place_ && inner_.stride == 1) return from;
    load_(buffer.bytes, from, 1, 0, n, inner_.stride);
    return buffer.bytes;
  }

  // Whether a later candidate takes the place of what was found.
  bool Replaces(const char* candidate, const char* found) const {
    return last_ ? !beats_(found, candidate) : beats_(candidate, found);
  }

  void RunShortRows() const {
    const ReduceDim& along = plan_.kept.back();
    const int64_t n = plan_.count;
    const int64_t per_tile = std::max<int64_t>(1, kTile / n);
    const int64_t across = Ceil(along.size, per_tile);
    const int64_t tiles = plan_.outputs / along.size * across;
    const int64_t per_task = std::max<int64_t>(1, kChunkElements / (std::min(per_tile, along.size) * n));
    ParallelFor(Ceil(tiles, per_task), parallel_, [&](int64_t task) {
      Buffer buffer;
      Buffer values;
      for (int64_t t = task * per_task; t < std::min(tiles, (task + 1) * per_task); ++t) {
        const KeptOffset outer = OffsetOf(plan_, t / across, plan_.kept.size() - 1);
        const int64_t first = t % across * per_tile;
        const int64_t rows = std::min(per_tile, along.size - first);
        const char* tile = plan_.data + (outer.in + first * along.stride) * item_;
        int64_t row_stride = along.stride;
        if (!in_place_ || inner_.stride != 1) {
          load_(buffer.bytes, tile, rows, row_stride, n, inner_.stride);
          tile = buffer.bytes;
          row_stride = n;
        }
        rows_(tile, row_stride, rows, n, values.bytes);
        for (int64_t r = 0; r < rows; ++r) {
          out_[outer.out + first + r] =
              find_(tile + r * row_stride * lane_size_, n, values.bytes + r * lane_size_, last_);
        }
      }
    });
  }

  absl::Status RunLongRows() const {
    const int64_t chunks = Ceil(plan_.count, kChunkElements);
    TENSORD_ASSIGN_OR_RETURN(
        Scratch scratch, Scratch::Allocate(static_cast<size_t>(plan_.outputs * chunks) * sizeof(Partial), context_));
    auto* partials = static_cast<Partial*>(scratch.data());
    ParallelFor(plan_.outputs * chunks, parallel_, [&](int64_t t) {
      const KeptOffset kept = OffsetOf(plan_, t / chunks, plan_.kept.size());
      partials[t] = LongChunk(plan_.data + kept.in * item_, t % chunks * kChunkElements);
    });
    for (int64_t o = 0; o < plan_.outputs; ++o) {
      const Partial* best = partials + o * chunks;
      for (const Partial* p = best + 1; p < partials + (o + 1) * chunks; ++p) {
        if (Replaces(p->value, best->value)) best = p;
      }
      out_[o] = best->index;
    }
    return absl::OkStatus();
  }

  Partial LongChunk(const char* base, int64_t begin) const {
    Buffer buffer;
    const int64_t end = std::min(plan_.count, begin + kChunkElements);
    Partial best{};
    int64_t where = -1;
    for (int64_t p = begin; p < end; p += kTile) {
      const int64_t n = std::min(kTile, end - p);
      alignas(8) char value[8] = {};
      rows_(Block(buffer, base, p, n), 0, 1, n, value);
      if (where < 0 || Replaces(value, best.value)) {
        std::memcpy(best.value, value, sizeof(value));
        where = p;
      }
    }
    const int64_t n = std::min(kTile, end - where);
    best.index = where + find_(Block(buffer, base, where, n), n, best.value, last_);
    return best;
  }

  absl::Status RunColumns(size_t along) const {
    const ReduceDim& dim = plan_.kept[along];
    const int64_t width = std::min<int64_t>(dim.size, 256);
    const int64_t across = Ceil(dim.size, width);
    const int64_t rows = std::max<int64_t>(1, kChunkElements / width);
    const int64_t chunks = Ceil(plan_.count, rows);
    const int64_t all = plan_.outputs * chunks;
    std::optional<Scratch> scratch;
    char* values = nullptr;
    int64_t* indices = out_;
    if (chunks > 1) {
      TENSORD_ASSIGN_OR_RETURN(scratch, Scratch::Allocate(static_cast<size_t>(all) * 16, context_));
      indices = static_cast<int64_t*>(scratch->data());
      values = static_cast<char*>(scratch->data()) + all * 8;
    }
    const int64_t tiles = plan_.outputs / dim.size * across * chunks;
    const int64_t per_task = std::max<int64_t>(1, kChunkElements / (width * std::min(rows, plan_.count)));
    ParallelFor(Ceil(tiles, per_task), parallel_, [&](int64_t task) {
      ColumnTask state;
      for (int64_t t = task * per_task; t < std::min(tiles, (task + 1) * per_task); ++t) {
        const int64_t column = t % across * width;
        const int64_t chunk = t / across % chunks;
        const KeptOffset outer = OffsetOf(plan_, t / across / chunks, along);
        const int64_t n = std::min(width, dim.size - column);
        ColumnChunk(state, dim, plan_.data + (outer.in + column * dim.stride) * item_, n, chunk * rows,
                    std::min(plan_.count, (chunk + 1) * rows));
        for (int64_t j = 0; j < n; ++j) {
          const int64_t at = chunk * plan_.outputs + outer.out + (column + j) * dim.out_stride;
          indices[at] = chunk * rows + state.Index(j, lane_size_);
          if (values != nullptr) {
            std::memcpy(values + at * lane_size_, state.best + j * lane_size_, static_cast<size_t>(lane_size_));
          }
        }
      }
    });
    for (int64_t o = 0; chunks > 1 && o < plan_.outputs; ++o) {
      int64_t best = o;
      for (int64_t at = o + plan_.outputs; at < all; at += plan_.outputs) {
        if (Replaces(values + at * lane_size_, values + best * lane_size_)) best = at;
      }
      out_[o] = indices[best];
    }
    return absl::OkStatus();
  }

  struct ColumnTask {
    Buffer tile;
    alignas(64) char best[256 * 8];
    alignas(64) char index[256 * 8];  // within the chunk; as wide as ArgColumns says

    int64_t Index(int64_t j, int64_t lane_size) const {
      if (lane_size == 8) return reinterpret_cast<const int64_t*>(index)[j];
      return reinterpret_cast<const int32_t*>(index)[j];
    }
    void FillIndex(int64_t n, int64_t place, int64_t lane_size) {
      if (lane_size == 8) {
        std::fill_n(reinterpret_cast<int64_t*>(index), n, place);
      } else {
        std::fill_n(reinterpret_cast<int32_t*>(index), n, static_cast<int32_t>(place));
      }
    }
  };

  // Goes through the rows from the end where the last of equals is wanted, so that the loop keeps the first it meets.
  void ColumnChunk(ColumnTask& state, const ReduceDim& dim, const char* base, int64_t width, int64_t begin,
                   int64_t end) const {
    const bool direct = in_place_ && dim.stride == 1;
    const int64_t step = last_ ? -1 : 1;
    const int64_t first = last_ ? end - 1 : begin;
    load_(state.best, base + first * inner_.stride * item_, 1, 0, width, dim.stride);
    state.FillIndex(width, first - begin, lane_size_);
    int64_t left = end - begin - 1;
    for (int64_t p = first + step; left > 0;) {
      const char* tile = base + p * inner_.stride * item_;
      int64_t row_stride = step * inner_.stride;
      const int64_t rows = direct ? left : std::min(left, kTile / width);
      if (!direct) {
        load_(state.tile.bytes, tile, rows, row_stride, width, dim.stride);
        tile = state.tile.bytes;
        row_stride = width;
      }
      columns_(tile, row_stride, rows, width, p - begin, step, state.best, state.index);
      p += step * rows;
      left -= rows;
    }
  }

  const ReducePlan& plan_;
  const ReduceDim& inner_;
  const bool last_;
  int64_t* const out_;
  Context& context_;
  const int64_t item_;
  const int64_t lane_size_;
  const bool in_place_;
  const bool parallel_;
  ReduceLoops::Load load_;
  ReduceLoops::Rows rows_;
  ReduceLoops::ArgColumns columns_;
  ReduceLoops::Beats beats_;
  ReduceLoops::Find find_;
};

}  // namespace

absl::Status FindExtremes(const ReducePlan& plan, Combine combine, Lane lane, bool last, int64_t* out,
                          Context& context) {
  return Finder(plan, combine, lane, last, out, context).Run();
}

}  // namespace tensord::cpu
