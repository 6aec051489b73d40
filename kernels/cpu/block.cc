#include "kernels/cpu/block.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "kernels/cpu/gather.h"
#include "kernels/cpu/isa/stream_copy.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {
namespace {

using Kind = GatherSource::Kind;

constexpr int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Results from this size on are written past the cache, which they would only flush.
constexpr int64_t kStreamBytes = int64_t{64} << 20;
// Rows of a transpose that are brought together, where the elements before them leave room: reading walks down the
// rows, along memory.
constexpr int64_t kPanelRows = 256;
constexpr int64_t kPanelElements = 256 * 1024;

// Memory of the calling thread for blocks in flight. It grows to what the largest plan needed and is kept: some ten KiB a
// thread, and a panel (at most 2 MiB) for each transposed source.
class Arena {
 public:
  static char* OfThread(size_t bytes) {
    static thread_local Arena arena;
    if (arena.bytes_ < bytes) {
      arena.data_.reset(static_cast<char*>(::operator new (bytes, std::align_val_t{kAlignment})));
      std::memset(arena.data_.get(), 0, bytes);  // padding of a partial block is computed with, so it shall be values
      arena.bytes_ = bytes;
    }
    return arena.data_.get();
  }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(char* data) const { ::operator delete (data, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<char, Free> data_;
  size_t bytes_ = 0;
};

// A plan made ready: sources classified, room for every slot laid out.
class Run {
 public:
  explicit Run(const Plan& plan) : plan_(plan), elements_(NumElements(plan.shape)) {
    if (elements_ == 0) return;
    Prepare();
    const int64_t chunks = (elements_ + chunk_elements_ - 1) / chunk_elements_;
    ParallelFor(chunks, elements_ >= kParallelElements, [this](int64_t i) { Chunk(i); });
  }

 private:
  void Prepare() {
    const size_t sources = plan_.sources.size();
    Dims shape = plan_.shape;
    absl::InlinedVector<Dims, 3> strides;
    for (const Plan::Source& s : plan_.sources) {
      strides.push_back(s.data != nullptr ? s.strides : Dims(shape.size(), 0));
    }
    Collapse(shape, absl::MakeSpan(strides));
    for (size_t i = 0; i < sources; ++i) {
      sources_.push_back(Classify(shape, strides[i], plan_.sources[i].data, plan_.sources[i].item));
    }
    for (const GatherSource& source : sources_) {
      if (source.kind != Kind::kTransposed) continue;
      const int64_t panel = kPanelRows * source.shape.back();
      // Straight to the output the panel needs no room of its own.
      chunk_elements_ = std::max(chunk_elements_, plan_.steps.empty() ? panel : std::min(panel, kPanelElements));
    }
    const int64_t block = std::min(kBlockElements, RoundUp(elements_, kLoopUnit));
    for (size_t i = 0; i < sources + plan_.steps.size(); ++i) {
      int64_t room = block;
      if (i < sources && sources_[i].kind == Kind::kPeriodic) room = block + sources_[i].period;
      if (i < sources && sources_[i].kind == Kind::kTransposed) {
        room = plan_.steps.empty() ? 0 : std::min(chunk_elements_, RoundUp(elements_, kLoopUnit));
      }
      offsets_.push_back(arena_bytes_);
      arena_bytes_ += static_cast<size_t>(RoundUp(room * static_cast<int64_t>(plan_.ItemOf(static_cast<int>(i))), 64));
    }
    block_elements_ = block;
    for (const Plan::Output& o : plan_.outputs) {
      const bool in_place = std::any_of(plan_.sources.begin(), plan_.sources.end(),
                                        [&o](const Plan::Source& s) { return s.data == o.data; });
      if (!in_place && elements_ >= kStreamBytes / static_cast<int64_t>(plan_.ItemOf(o.slot))) stream_ = true;
    }
  }

  void Chunk(int64_t index) const {
    const int64_t begin = index * chunk_elements_;
    const int64_t end = std::min(elements_, begin + chunk_elements_);
    char* const arena = Arena::OfThread(arena_bytes_);
    if (plan_.steps.empty()) return CopyOut(begin, end, arena);
    for (size_t i = 0; i < sources_.size(); ++i) LayOut(i, begin, end, arena + offsets_[i]);
    for (int64_t first = begin; first < end; first += kBlockElements) {
      Block(begin, first, std::min(kBlockElements, end - first), arena);
    }
    if (stream_) StreamFence();
  }

  // What a source needs once a chunk.
  void LayOut(size_t i, int64_t begin, int64_t end, char* room) const {
    const GatherSource& source = sources_[i];
    const size_t item = source.item;
    switch (source.kind) {
      case Kind::kSplat:
        FillItems(room, source.data != nullptr ? source.data : static_cast<const void*>(plan_.sources[i].value.data()),
                  item, block_elements_);
        break;
      case Kind::kPeriodic: {
        const size_t bytes = static_cast<size_t>(source.period + block_elements_) * item;
        const size_t period = static_cast<size_t>(source.period) * item;
        std::memcpy(room, source.data, period);
        for (size_t done = period; done < bytes; done *= 2)
          std::memcpy(room + done, room, std::min(done, bytes - done));
        break;
      }
      case Kind::kTransposed:
        GatherRange(source, begin, end - begin, room);
        break;
      default:
        break;
    }
  }

  // Where the `count` elements from `first` on can be read, padded to a whole number of loop units.
  const void* Bring(size_t i, int64_t begin, int64_t first, int64_t count, char* room) const {
    const GatherSource& source = sources_[i];
    const int64_t item = source.item;
    switch (source.kind) {
      case Kind::kContiguous:
        if (count % kLoopUnit == 0) return source.data + first * item;
        std::memcpy(room, source.data + first * item, static_cast<size_t>(count * item));
        return room;
      case Kind::kSplat:
        return room;
      case Kind::kPeriodic:
        return room + first % source.period * item;
      case Kind::kTransposed:
        return room + (first - begin) * item;
      case Kind::kStrided:
        GatherRange(source, first, count, room);
        return room;
    }
    return room;
  }

  void Block(int64_t begin, int64_t first, int64_t count, char* arena) const {
    const size_t sources = sources_.size();
    const bool whole = count % kLoopUnit == 0;
    const int64_t padded = RoundUp(count, kLoopUnit);
    absl::InlinedVector<const void*, 12> slots;
    for (size_t i = 0; i < sources; ++i) slots.push_back(Bring(i, begin, first, count, arena + offsets_[i]));
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const Plan::Step& step = plan_.steps[s];
      const size_t slot = sources + s;
      void* out = arena + offsets_[slot];
      if (whole && !stream_) {
        for (const Plan::Output& o : plan_.outputs) {
          if (static_cast<size_t>(o.slot) == slot) out = static_cast<char*>(o.data) + first * step.item;
        }
      }
      const void* inputs[3] = {};
      for (size_t i = 0; i < step.input_count; ++i) inputs[i] = slots[step.inputs[i]];
      step.loop(out, inputs, padded);
      slots.push_back(out);
    }
    for (const Plan::Output& o : plan_.outputs) {
      const auto item = static_cast<int64_t>(plan_.ItemOf(o.slot));
      char* const target = static_cast<char*>(o.data) + first * item;
      const void* const from = slots[static_cast<size_t>(o.slot)];
      if (from == target) continue;
      if (stream_) {
        StreamCopy(target, from, static_cast<size_t>(count * item));
      } else {
        std::memcpy(target, from, static_cast<size_t>(count * item));
      }
    }
  }

  // A plan without steps moves elements: straight to the output.
  void CopyOut(int64_t begin, int64_t end, char* arena) const {
    for (const Plan::Output& o : plan_.outputs) {
      const auto i = static_cast<size_t>(o.slot);
      const GatherSource& source = sources_[i];
      const int64_t item = source.item;
      char* const target = static_cast<char*>(o.data) + begin * item;
      const int64_t count = end - begin;
      switch (source.kind) {
        case Kind::kContiguous:
          if (source.data != o.data) std::memcpy(target, source.data + begin * item, static_cast<size_t>(count * item));
          break;
        case Kind::kSplat:
          FillItems(target,
                    source.data != nullptr ? source.data : static_cast<const void*>(plan_.sources[i].value.data()),
                    source.item, count);
          break;
        case Kind::kPeriodic:
          LayOut(i, begin, end, arena + offsets_[i]);
          for (int64_t first = begin; first < end; first += block_elements_) {
            std::memcpy(target + (first - begin) * item, arena + offsets_[i] + first % source.period * item,
                        static_cast<size_t>(std::min(block_elements_, end - first) * item));
          }
          break;
        default:
          GatherRange(source, begin, count, target);
      }
    }
  }

  const Plan& plan_;
  const int64_t elements_;
  int64_t block_elements_ = 0;
  int64_t chunk_elements_ = kChunkElements;
  bool stream_ = false;
  absl::InlinedVector<GatherSource, 3> sources_;
  absl::InlinedVector<size_t, 12> offsets_;  // of every slot's room in the arena
  size_t arena_bytes_ = 0;
};

}  // namespace

int Plan::AddTensor(const void* data, size_t item, absl::Span<const int64_t> strides) {
  Source source;
  source.data = data;
  source.item = static_cast<uint8_t>(item);
  source.strides.assign(strides.begin(), strides.end());
  sources.push_back(std::move(source));
  return static_cast<int>(sources.size()) - 1;
}

int Plan::AddValue(const void* value, size_t item) {
  Source source;
  source.item = static_cast<uint8_t>(item);
  std::memcpy(source.value.data(), value, item);
  sources.push_back(std::move(source));
  return static_cast<int>(sources.size()) - 1;
}

int Plan::AddStep(Loop loop, std::initializer_list<int> inputs, size_t item) {
  Step step;
  step.loop = loop;
  step.item = static_cast<uint8_t>(item);
  for (const int slot : inputs) step.inputs[step.input_count++] = static_cast<uint8_t>(slot);
  steps.push_back(step);
  return static_cast<int>(sources.size() + steps.size()) - 1;
}

void RunPlan(const Plan& plan) { const Run run(plan); }

}  // namespace tensord::cpu
