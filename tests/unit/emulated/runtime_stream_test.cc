// Streams, events and host functions, as CUDA has them.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace {

class RuntimeStream : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    cudaGetLastError();
  }
  void TearDown() override { EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess); }
  static cudaStream_t Make(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    return stream;
  }
  static cudaEvent_t MakeEvent(unsigned flags = cudaEventDefault) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
    return event;
  }
};

// A host function that notes that it ran, and after what.
struct Note {
  std::vector<int>* order;
  int number;
  static void Run(void* self) {
    auto* note = static_cast<Note*>(self);
    note->order->push_back(note->number);
  }
};

TEST_F(RuntimeStream, WorkRunsInOrder) {
  cudaStream_t stream = Make();
  std::vector<int> order;
  Note notes[] = {{&order, 1}, {&order, 2}, {&order, 3}};
  for (Note& note : notes) EXPECT_EQ(cudaLaunchHostFunc(stream, &Note::Run, &note), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(RuntimeStream, EventsOrderStreams) {
  cudaStream_t first = Make(), second = Make();
  cudaEvent_t event = MakeEvent(cudaEventDisableTiming);
  for (int round = 0; round < 20; ++round) {
    std::vector<int> order;
    Note a{&order, 1}, b{&order, 2};
    EXPECT_EQ(cudaLaunchHostFunc(first, &Note::Run, &a), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
    EXPECT_EQ(cudaLaunchHostFunc(second, &Note::Run, &b), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
  }
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(first), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
}

TEST_F(RuntimeStream, EventNeverRecordedIsPassed) {
  cudaEvent_t event = MakeEvent();
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, event, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(RuntimeStream, QueriesTellWhenWorkIsDone) {
  cudaStream_t stream = Make();
  cudaEvent_t event = MakeEvent();
  std::vector<int> order;
  Note note{&order, 1};
  EXPECT_EQ(cudaLaunchHostFunc(stream, &Note::Run, &note), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  cudaError_t error = cudaErrorNotReady;
  while ((error = cudaEventQuery(event)) == cudaErrorNotReady) std::this_thread::yield();
  EXPECT_EQ(error, cudaSuccess) << "asking is enough to get on";
  EXPECT_EQ(order.size(), 1U);
  while ((error = cudaStreamQuery(stream)) == cudaErrorNotReady) std::this_thread::yield();
  EXPECT_EQ(error, cudaSuccess);
  cudaGetLastError();
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(RuntimeStream, TimeBetweenEvents) {
  cudaEvent_t start = MakeEvent(), end = MakeEvent(), silent = MakeEvent(cudaEventDisableTiming);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle) << "never recorded";
  EXPECT_EQ(cudaEventRecord(start, nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(end, nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(silent, nullptr), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0.0F);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, silent), cudaErrorInvalidResourceHandle);
  for (cudaEvent_t event : {start, end, silent}) EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  cudaGetLastError();
}

// A blocking stream and the legacy default stream wait for one another; a non-blocking one does not take part.
TEST_F(RuntimeStream, LegacyDefaultStream) {
  cudaStream_t blocking = Make(cudaStreamDefault);
  for (int round = 0; round < 20; ++round) {
    std::vector<int> order;
    Note a{&order, 1}, b{&order, 2}, c{&order, 3};
    EXPECT_EQ(cudaLaunchHostFunc(blocking, &Note::Run, &a), cudaSuccess);
    EXPECT_EQ(cudaLaunchHostFunc(nullptr, &Note::Run, &b), cudaSuccess);
    EXPECT_EQ(cudaLaunchHostFunc(blocking, &Note::Run, &c), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  }
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST_F(RuntimeStream, DestroyedStreamsFinishTheirWork) {
  cudaStream_t stream = Make();
  std::vector<int> order;
  Note note{&order, 1};
  EXPECT_EQ(cudaLaunchHostFunc(stream, &Note::Run, &note), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(order.size(), 1U);
}

TEST_F(RuntimeStream, CudaIsNotPermittedInHostFunctions) {
  std::atomic<int> answer{-1};
  EXPECT_EQ(cudaLaunchHostFunc(
                nullptr, [](void* out) { static_cast<std::atomic<int>*>(out)->store(cudaFree(nullptr)); }, &answer),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(answer.load(), cudaErrorNotPermitted);
  cudaGetLastError();
}

TEST_F(RuntimeStream, Flags) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, 0xff), cudaErrorInvalidValue);
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, 0xff00), cudaErrorInvalidValue);
  stream = Make();
  unsigned flags = 99;
  EXPECT_EQ(cudaStreamGetFlags(stream, &flags), cudaSuccess);
  EXPECT_EQ(flags, static_cast<unsigned>(cudaStreamNonBlocking));
  int device = -1;
  EXPECT_EQ(cudaStreamGetDevice(stream, &device), cudaSuccess);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  cudaGetLastError();
}

TEST_F(RuntimeStream, ThreadsShareStreams) {
  cudaStream_t stream = Make();
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 4096), cudaSuccess);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        EXPECT_EQ(cudaMemsetAsync(data, i, 4096, stream), cudaSuccess);
        EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
