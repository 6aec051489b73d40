// Intrusive reference counts: one word, no control block, and a trustworthy "nobody else holds it".
//
//   class Storage : public RefCounted<Storage> { … };
//   auto storage = MakeRef<Storage>(device, bytes);
//   if (storage->unique()) …   // this reference is the only one, and no other thread can make a second
//
// Thread safety: counts are atomic; a Ref object itself is like a pointer (one thread writes it at a time).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tensord {

template <class T>
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void AddRef() const { references_.fetch_add(1, std::memory_order_relaxed); }
  void Release() const {
    if (references_.fetch_sub(1) == 1) delete static_cast<const T*>(this);
  }
  // True where the caller's reference is the only one. What other holders did before they let go is visible then.
  // Sequentially consistent with Release: executors rely on it (Lane::blocked).
  bool unique() const { return references_.load() == 1; }
  // A moment's value: for lists.
  uint32_t references() const { return references_.load(std::memory_order_relaxed); }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<uint32_t> references_{0};
};

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->AddRef();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->Release();
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const Ref& other) const { return object_ == other.object_; }
  void reset() { *this = Ref(); }

 private:
  T* object_ = nullptr;
};

template <class T, class... Args>
Ref<T> MakeRef(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace tensord
