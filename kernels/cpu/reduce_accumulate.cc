// Accumulate: the traversal of a reduction, tile by tile.
#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cpu/reduce_plan.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {
namespace {

constexpr int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Everything that the tasks of one Accumulate share.
class Accumulator {
 public:
  Accumulator(const ReducePlan& plan, const ReduceMeaning& meaning, void* out, Context& context)
      : plan_(plan),
        meaning_(meaning),
        loops_(GetReduceLoops()),
        out_(static_cast<char*>(out)),
        context_(context),
        item_(static_cast<int64_t>(ItemSize(plan.dtype))),
        lane_size_(static_cast<int64_t>(LaneSize(meaning.lane))),
        total_lane_(AccumulatorOf(meaning.combine, meaning.lane)),
        total_size_(static_cast<int64_t>(LaneSize(total_lane_))),
        in_place_(IsLane(plan.dtype, meaning.lane, meaning.reading) && meaning.shift == nullptr && !meaning.square),
        parallel_(!meaning.serial && plan.outputs * std::max<int64_t>(plan.count, 1) >= kParallelElements) {
    const auto lane = static_cast<size_t>(meaning.lane);
    const auto dtype = static_cast<size_t>(plan.dtype);
    load_ = meaning.reading == Reading::kNonZero ? loops_.load_nonzero[dtype] : loops_.load[dtype][lane];
    rows_ = loops_.rows[static_cast<size_t>(meaning.combine)][lane];
    columns_ = loops_.columns[static_cast<size_t>(meaning.combine)][lane];
    const auto total = static_cast<size_t>(total_lane_);
    total_rows_ = loops_.rows[static_cast<size_t>(meaning.combine)][total];
    total_columns_ = loops_.columns[static_cast<size_t>(meaning.combine)][total];
  }

  absl::Status Run() {
    if (plan_.outputs == 0) return absl::OkStatus();
    if (plan_.count == 0) {
      FillIdentity(out_, plan_.outputs);
      return absl::OkStatus();
    }
    const ReduceOrder order = ChooseOrder(plan_);
    if (order.columns) return RunColumns(order.along);
    if (plan_.count <= kTile) {
      RunShortRows();
      return absl::OkStatus();
    }
    return RunLongRows();
  }

 private:
  // A tile in memory or, brought to lanes, in a buffer.
  struct Buffer {
    alignas(64) char bytes[kTile * 8];
  };

  void FillIdentity(char* to, int64_t n) const {
    alignas(8) char identity[8];
    total_rows_(nullptr, 0, 1, 0, identity);
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * total_size_, identity, static_cast<size_t>(total_size_));
  }

  // Element offset of a position in the reduced dimensions.
  int64_t ReducedOffset(int64_t position) const {
    int64_t offset = 0;
    for (size_t i = plan_.reduced.size(); i-- > 0;) {
      offset += position % plan_.reduced[i].size * plan_.reduced[i].stride;
      position /= plan_.reduced[i].size;
    }
    return offset;
  }

  // Brings `n` elements from `position` on of one output to lanes.
  void Gather(const char* base, int64_t position, int64_t n, char* to) const {
    const ReduceDim& inner = plan_.reduced.back();
    while (n > 0) {
      const int64_t at = position % inner.size;
      const char* from = base + ReducedOffset(position) * item_;
      int64_t rows = 1;
      int64_t width = std::min(n, inner.size - at);
      int64_t row_stride = 0;
      if (at == 0 && n >= 2 * inner.size && plan_.reduced.size() > 1) {
        const ReduceDim& next = plan_.reduced[plan_.reduced.size() - 2];
        rows = std::min(n / inner.size, next.size - position / inner.size % next.size);
        width = inner.size;
        row_stride = next.stride;
      }
      load_(to, from, rows, row_stride, width, inner.stride);
      to += rows * width * lane_size_;
      position += rows * width;
      n -= rows * width;
    }
  }

  // Shifts and squares a tile whose rows belong to one output each.
  void AdjustRows(char* tile, int64_t rows, int64_t n, int64_t first_output) const {
    const auto lane = static_cast<size_t>(meaning_.lane);
    if (meaning_.shift != nullptr) {
      loops_.shift_rows[lane](tile, rows, n, static_cast<const char*>(meaning_.shift) + first_output * lane_size_);
    }
    if (meaning_.square) loops_.square[lane](tile, rows * n);
  }

  // Rows that fit a tile: several at once.
  void RunShortRows() {
    const ReduceDim& last = plan_.kept.back();
    const int64_t per_tile = std::max<int64_t>(1, kTile / plan_.count);
    const int64_t tiles_across = Ceil(last.size, per_tile);
    const int64_t tiles = plan_.outputs / last.size * tiles_across;
    const int64_t per_task = std::max<int64_t>(1, kChunkElements / (std::min(per_tile, last.size) * plan_.count));
    ParallelFor(Ceil(tiles, per_task), parallel_, [&](int64_t task) {
      Buffer buffer;
      for (int64_t t = task * per_task; t < std::min(tiles, (task + 1) * per_task); ++t) {
        const KeptOffset outer = OffsetOf(plan_, t / tiles_across, plan_.kept.size() - 1);
        const int64_t first = t % tiles_across * per_tile;
        ShortTile(buffer, outer.in + first * last.stride, outer.out + first, std::min(per_tile, last.size - first));
      }
    });
  }

  void ShortTile(Buffer& buffer, int64_t in, int64_t output, int64_t rows) const {
    const ReduceDim& last = plan_.kept.back();
    const ReduceDim& inner = plan_.reduced.back();
    const int64_t n = plan_.count;
    const char* from = plan_.data + in * item_;
    char* to = out_ + output * total_size_;
    if (in_place_ && plan_.reduced.size() == 1 && (inner.stride == 1 || n == 1)) {
      rows_(from, last.stride, rows, n, to);
      return;
    }
    if (plan_.reduced.size() == 1) {
      load_(buffer.bytes, from, rows, last.stride, n, inner.stride);
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        Gather(from + r * last.stride * item_, 0, n, buffer.bytes + r * n * lane_size_);
      }
    }
    AdjustRows(buffer.bytes, rows, n, output);
    rows_(buffer.bytes, n, rows, n, to);
  }

  // Rows longer than a tile: each in chunks.
  absl::Status RunLongRows() {
    const int64_t chunks = Ceil(plan_.count, kChunkElements);
    char* partials = out_;
    std::optional<Scratch> scratch;
    if (chunks > 1) {
      TENSORD_ASSIGN_OR_RETURN(scratch, Allocate(plan_.outputs * chunks));
      partials = static_cast<char*>(scratch->data());
    }
    const int64_t tasks = plan_.outputs * chunks;
    const int64_t per_task = std::max<int64_t>(1, kChunkElements / plan_.count);
    ParallelFor(Ceil(tasks, per_task), parallel_, [&](int64_t group) {
      Buffer buffer;
      for (int64_t t = group * per_task; t < std::min(tasks, (group + 1) * per_task); ++t) {
        LongChunk(buffer, t / chunks, t % chunks, partials + t * total_size_);
      }
    });
    if (chunks == 1) return absl::OkStatus();
    return Combined(MatrixPlan(total_lane_, partials, plan_.outputs, chunks, 1));
  }

  void LongChunk(Buffer& buffer, int64_t output, int64_t chunk, char* to) const {
    const KeptOffset kept = OffsetOf(plan_, output, plan_.kept.size());
    const char* base = plan_.data + kept.in * item_;
    const ReduceDim& inner = plan_.reduced.back();
    alignas(64) char values[kChunkElements / kTile * 8];
    const int64_t begin = chunk * kChunkElements;
    const int64_t end = std::min(plan_.count, begin + kChunkElements);
    int64_t blocks = 0;
    for (int64_t p = begin; p < end; p += kTile, ++blocks) {
      const int64_t n = std::min(kTile, end - p);
      char* value = values + blocks * total_size_;
      if (in_place_ && inner.stride == 1 && p % inner.size + n <= inner.size) {
        rows_(base + ReducedOffset(p) * item_, 0, 1, n, value);
      } else {
        Gather(base, p, n, buffer.bytes);
        AdjustRows(buffer.bytes, 1, n, kept.out);
        rows_(buffer.bytes, 0, 1, n, value);
      }
      if (Decided(value)) {
        ++blocks;
        break;
      }
    }
    total_rows_(values, 0, 1, blocks, to);
  }

  // any and all need not read on once they know.
  bool Decided(const char* value) const {
    if (meaning_.reading != Reading::kNonZero) return false;
    return (meaning_.combine == Combine::kMax) == (*value != 0);
  }

  // Many outputs at once, along kept dimension `along`.
  absl::Status RunColumns(size_t along) {
    const ReduceDim& dim = plan_.kept[along];
    const bool direct = in_place_ && dim.stride == 1;
    // A tile in place may be wide; one in a buffer should have several rows.
    const int64_t width = std::min<int64_t>(dim.size, direct ? 1024 : 256);
    const int64_t across = Ceil(dim.size, width);
    const int64_t rows = std::max<int64_t>(1, kChunkElements / width);
    const int64_t chunks = Ceil(plan_.count, rows);
    char* partials = out_;
    std::optional<Scratch> scratch;
    if (chunks > 1) {
      TENSORD_ASSIGN_OR_RETURN(scratch, Allocate(plan_.outputs * chunks));
      partials = static_cast<char*>(scratch->data());
    }
    const int64_t tiles = plan_.outputs / dim.size * across * chunks;
    const int64_t per_task = std::max<int64_t>(1, kChunkElements / (width * std::min(rows, plan_.count)));
    ParallelFor(Ceil(tiles, per_task), parallel_, [&](int64_t task) {
      ColumnTask state;
      for (int64_t t = task * per_task; t < std::min(tiles, (task + 1) * per_task); ++t) {
        const int64_t column = t % across * width;
        const int64_t chunk = t / across % chunks;
        const KeptOffset outer = OffsetOf(plan_, t / across / chunks, along);
        const int64_t output = outer.out + column * dim.out_stride;
        state.width = std::min(width, dim.size - column);
        const char* base = plan_.data + (outer.in + column * dim.stride) * item_;
        ColumnChunk(state, dim, base, output, chunk * rows, std::min(plan_.count, (chunk + 1) * rows));
        Scatter(state, dim, partials + (chunk * plan_.outputs + output) * total_size_);
      }
    });
    if (chunks == 1) return absl::OkStatus();
    return Combined(MatrixPlan(total_lane_, partials, chunks, plan_.outputs, 0));
  }

  struct ColumnTask {
    Buffer tile;
    int64_t width = 0;
    int64_t fold = 1;                  // rows side by side in `part`, for narrow tiles
    alignas(64) char part[1024 * 8];   // of some rows: width * fold
    alignas(64) char total[1024 * 8];  // of all
    alignas(64) char shift[256 * 8];   // of these columns
  };

  void ColumnChunk(ColumnTask& state, const ReduceDim& dim, const char* base, int64_t output, int64_t begin,
                   int64_t end) const {
    constexpr int64_t kFolded = 64;     // elements that keep vector units busy
    constexpr int64_t kPartRows = 128;  // folded rows added up before they join the total
    state.fold = std::max<int64_t>(1, kFolded / state.width);
    const int64_t folded = state.width * state.fold;
    if (meaning_.shift != nullptr) {
      const char* from = static_cast<const char*>(meaning_.shift) + output * lane_size_;
      for (int64_t j = 0; j < state.width; ++j) {
        std::memcpy(state.shift + j * lane_size_, from + j * dim.out_stride * lane_size_,
                    static_cast<size_t>(lane_size_));
      }
    }
    FillIdentity(state.total, folded);
    const int64_t step = kPartRows * state.fold;
    for (int64_t p = begin; p < end; p += step) {
      const int64_t n = std::min(step, end - p);
      if (n == end - begin) {
        AddRows(state, dim, base, p, n, state.total);
        break;
      }
      FillIdentity(state.part, folded);
      AddRows(state, dim, base, p, n, state.part);
      total_columns_(state.part, 0, 1, folded, state.total);
    }
    if (state.fold > 1) {
      FillIdentity(state.part, state.width);
      total_columns_(state.total, state.width, state.fold, state.width, state.part);
      std::memcpy(state.total, state.part, static_cast<size_t>(state.width * total_size_));
    }
  }

  // Adds rows `position` to `position + n` of the tile's columns to `to`.
  void AddRows(ColumnTask& state, const ReduceDim& dim, const char* base, int64_t position, int64_t n, char* to) const {
    const ReduceDim& inner = plan_.reduced.back();
    while (n > 0) {
      int64_t rows = std::min(n, inner.size - position % inner.size);
      const char* from = base + ReducedOffset(position) * item_;
      const bool packed = inner.stride == state.width || state.fold == 1;
      if (in_place_ && (dim.stride == 1 || state.width == 1) && packed) {
        AddTile(state, from, inner.stride, rows, to);
      } else {
        rows = std::min(rows, kTile / state.width);
        load_(state.tile.bytes, from, rows, inner.stride, state.width, dim.stride);
        const auto lane = static_cast<size_t>(meaning_.lane);
        if (meaning_.shift != nullptr) loops_.shift_columns[lane](state.tile.bytes, rows, state.width, state.shift);
        if (meaning_.square) loops_.square[lane](state.tile.bytes, rows * state.width);
        AddTile(state, state.tile.bytes, state.width, rows, to);
      }
      position += rows;
      n -= rows;
    }
  }

  void AddTile(const ColumnTask& state, const char* from, int64_t row_stride, int64_t rows, char* to) const {
    if (state.fold > 1) {
      const int64_t folded = rows / state.fold;
      columns_(from, state.width * state.fold, folded, state.width * state.fold, to);
      from += folded * state.fold * state.width * lane_size_;
      rows -= folded * state.fold;
    }
    columns_(from, row_stride, rows, state.width, to);
  }

  void Scatter(const ColumnTask& state, const ReduceDim& dim, char* to) const {
    if (dim.out_stride == 1) {
      std::memcpy(to, state.total, static_cast<size_t>(state.width * total_size_));
      return;
    }
    for (int64_t j = 0; j < state.width; ++j) {
      std::memcpy(to + j * dim.out_stride * total_size_, state.total + j * total_size_,
                  static_cast<size_t>(total_size_));
    }
  }

  absl::StatusOr<Scratch> Allocate(int64_t totals) const {
    return Scratch::Allocate(static_cast<size_t>(totals * total_size_), context_);
  }

  // Partial results, in chunk order, become the result.
  absl::Status Combined(const ReducePlan& partials) const {
    ReduceMeaning meaning;
    meaning.combine = meaning_.combine;
    meaning.lane = total_lane_;
    meaning.serial = meaning_.serial;
    return Accumulate(partials, meaning, out_, context_);
  }

  const ReducePlan& plan_;
  const ReduceMeaning& meaning_;
  const ReduceLoops& loops_;
  char* const out_;
  Context& context_;
  const int64_t item_;
  const int64_t lane_size_;
  const Lane total_lane_;
  const int64_t total_size_;
  const bool in_place_;  // elements are lanes already and nothing is done to them first
  const bool parallel_;
  ReduceLoops::Load load_;
  ReduceLoops::Rows rows_;
  ReduceLoops::Columns columns_;
  ReduceLoops::Rows total_rows_;
  ReduceLoops::Columns total_columns_;
};

}  // namespace

absl::Status Accumulate(const ReducePlan& plan, const ReduceMeaning& meaning, void* out, Context& context) {
  return Accumulator(plan, meaning, out, context).Run();
}

}  // namespace tensord::cpu
