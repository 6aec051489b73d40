// The language against a real engine: values, names, moves, models, refusals.
#include "client/cpp/expr/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "client/cpp/expr/functions.h"
#include "client/cpp/expr/layers_text.h"
#include "client/cpp/expr/op_call.h"
#include "kernels/core/error.h"
#include "tests/unit/expr/testing_engine.h"

namespace tensord::expr {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class EvaluatorTest : public testing::Test {
 protected:
  EvaluatorTest() : engine_(MakeTestingEngine()) { Reopen({}); }
  ~EvaluatorTest() override { evaluator_.reset(); }

  void Reopen(EvaluatorOptions options) {
    evaluator_ = std::make_unique<Evaluator>(*engine_, std::move(options));
    evaluator_->SetOutput([this](std::string_view text) { out_ += text; });
  }

  // What the text prints, or the error as "CODE REASON: message".
  std::string Run(std::string_view source) {
    out_.clear();
    const absl::Status status = evaluator_->Run(source);
    if (!status.ok()) {
      out_ += StrCat(absl::StatusCodeToString(status.code()), " ", DetailsOf(status).reason_name, ": ",
                     std::string(status.message()));
    }
    if (out_.ends_with('\n')) out_.pop_back();
    return out_;
  }

  std::unique_ptr<LocalEngine> engine_;
  std::unique_ptr<Evaluator> evaluator_;
  std::string out_;
};

TEST_F(EvaluatorTest, TheTutorial) {
  EXPECT_EQ(Run("try_all_gpus()"), "[device(type='cuda', index=0)]");
  EXPECT_EQ(Run("X = ones(2, 3, device=try_gpu())"), "");
  EXPECT_EQ(Run("X"),
            "tensor([[1., 1., 1.],\n"
            "        [1., 1., 1.]], device='cuda:0')");
  EXPECT_EQ(Run("Y = rand(2, 3, device=try_gpu(1))"), "");
  EXPECT_EQ(Run("Y.device"), "device(type='cpu')");
  EXPECT_THAT(
      Run("X + Y"),
      HasSubstr("FAILED_PRECONDITION DEVICE_MISMATCH: add: operand 1 (Y, float32[2,3]) is on cpu, operand 0 (X, "
                "float32[2,3]) is on cuda:0; tensors must be on one device. Move one first: Y.to(\"cuda:0\")"));
  EXPECT_EQ(Run("Z = Y.cuda(0)"), "");
  EXPECT_EQ(Run("Z.cuda(0) is Z"), "True");
  EXPECT_THAT(Run("X + Z"), MatchesRegex("tensor\\(\\[\\[1\\.[0-9]+, 1\\.[0-9]+, 1\\.[0-9]+\\],\n *\\[1\\.[0-9]+, "
                                         "1\\.[0-9]+, 1\\.[0-9]+\\]\\], device='cuda:0'\\)"));
  EXPECT_EQ(Run("net = nn.Sequential(nn.Linear(3, 1))"), "");
  EXPECT_THAT(Run("net(X)"), HasSubstr("FAILED_PRECONDITION DEVICE_MISMATCH"));
  EXPECT_EQ(Run("net = net.to(device=try_gpu())"), "");
  EXPECT_THAT(Run("net(X)"),
              MatchesRegex("tensor\\(\\[\\[ ?-?[0-9.]+\\],\n *\\[ ?-?[0-9.]+\\]\\], device='cuda:0'\\)"));
  EXPECT_EQ(Run("net(X).shape"), "(2, 1)");
  EXPECT_EQ(Run("net[0].weight.data.device"), "device(type='cuda', index=0)");
  EXPECT_THAT(Run("ones(2, device=\"cuda:7\")"),
              HasSubstr("NOT_FOUND DEVICE_UNKNOWN: no device cuda:7; there are cpu, cuda:0"));
}

TEST_F(EvaluatorTest, NumbersAreComputedHere) {
  EXPECT_EQ(Run("1 + 2 * 3"), "7");
  EXPECT_EQ(Run("7 / 2, 7 // 2, -7 // 2, -7 % 3, 7 % -3"), "(3.5, 3, -4, 2, -2)");
  EXPECT_EQ(Run("2 ** 62 + (2 ** 62 - 1)"), "9223372036854775807");
  EXPECT_EQ(Run("-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(Run("18446744073709551615 + 0"), "18446744073709551615");
  EXPECT_EQ(
      Run("2 ** 64"),
      "INVALID_ARGUMENT EXPRESSION_INVALID: line 1, column 3: the integer leaves the 64 bits that a number here has");
  EXPECT_EQ(Run("1 / 0"), "INVALID_ARGUMENT EXPRESSION_INVALID: line 1, column 3: division by zero");
  EXPECT_EQ(Run("7.5 // 2, -7.5 % 2, 2 ** -1, 2 ** 0.5"), "(3.0, 0.5, 0.5, 1.4142135623730951)");
  EXPECT_EQ(Run("1 < 2 < 3, 1 < 3 < 2, 3 == 3.0, nan == nan"), "(True, False, True, False)");
  EXPECT_EQ(Run("True and 0 or 'x'"), "'x'");
  EXPECT_EQ(Run("not 0, not [1]"), "(True, False)");
  EXPECT_EQ(Run("6 & 3, 6 | 3, 6 ^ 3, ~6, 1 << 5, -8 >> 1"), "(2, 7, 5, -7, 32, -4)");
  EXPECT_EQ(Run("[1, 2] + [3], (1,), ()"), "([1, 2, 3], (1,), ())");
  EXPECT_EQ(Run("[1, 2, 3][-1], (1, 2, 3)[::2], 'abc'[1]"), "(3, (1, 3), 'b')");
  EXPECT_EQ(Run("n = 3; n + 1"), "4");
  EXPECT_EQ(Run("None"), "");
  EXPECT_EQ(Run("inf, -inf, pi"), "(inf, -inf, 3.141592653589793)");
}

TEST_F(EvaluatorTest, Literals) {
  EXPECT_EQ(Run("tensor([[1, 2], [3, 4]])"), "tensor([[1, 2],\n        [3, 4]])");
  EXPECT_EQ(Run("tensor([1, 2.5])"), "tensor([1.0000, 2.5000])");
  EXPECT_EQ(Run("tensor([True, False])"), "tensor([ True, False])");
  EXPECT_EQ(Run("tensor(3, dtype=float16, device='cuda')"), "tensor(3., device='cuda:0', dtype=torch.float16)");
  EXPECT_EQ(Run("tensor([])"), "tensor([])");
  EXPECT_EQ(Run("tensor([9007199254740993])"), "tensor([9007199254740993])");
  EXPECT_EQ(Run("tensor([[], []])"), "tensor([], size=(2, 0))");
  EXPECT_THAT(Run("tensor([[1, 2], [3]])"), HasSubstr("EXPRESSION_INVALID: line 1, column 1: the lists are ragged"));
  EXPECT_THAT(Run("tensor([300], dtype=uint8)"), HasSubstr("INVALID_ARGUMENT SCALAR_RANGE"));
  EXPECT_THAT(Run("tensor(['a'])"), HasSubstr("INVALID_ARGUMENT ATTRIBUTE_INVALID: tensor: data is 'a'"));
  EXPECT_THAT(Run("ones(2, dtype='float99')"), HasSubstr("DTYPE_UNKNOWN: float99 is no dtype"));
}

TEST_F(EvaluatorTest, Creation) {
  EXPECT_EQ(Run("zeros(2)"), "tensor([0., 0.])");
  EXPECT_EQ(Run("ones((2, 2), dtype=int32)"), "tensor([[1, 1],\n        [1, 1]], dtype=torch.int32)");
  EXPECT_EQ(Run("full((2, 2), 7)"), "tensor([[7, 7],\n        [7, 7]])");
  EXPECT_EQ(Run("full((2,), 0.5)"), "tensor([0.5000, 0.5000])");
  EXPECT_EQ(Run("arange(5)"), "tensor([0, 1, 2, 3, 4])");
  EXPECT_EQ(Run("arange(1, 2, 0.25)"), "tensor([1.0000, 1.2500, 1.5000, 1.7500])");
  EXPECT_EQ(Run("arange(5, 0, -2)"), "tensor([5, 3, 1])");
  EXPECT_EQ(Run("linspace(0, 1, 5)"), "tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])");
  EXPECT_EQ(Run("eye(2)"), "tensor([[1., 0.],\n        [0., 1.]])");
  EXPECT_EQ(Run("ones(())"), "tensor(1.)");
  EXPECT_EQ(Run("zeros_like(arange(3))"), "tensor([0, 0, 0])");
  EXPECT_EQ(Run("(rand(3, seed=7) == rand(3, seed=7)).all()"), "tensor(True)");
  EXPECT_EQ(Run("a = (rand(4) == rand(4)).all().item(); a"), "False");
  EXPECT_THAT(Run("ones(-1)"), HasSubstr("SHAPE_INVALID"));
  EXPECT_THAT(Run("ones(2, color=3)"),
              HasSubstr("ATTRIBUTE_INVALID: ones: a keyword is color; allowed: size, dtype, device"));
}

TEST_F(EvaluatorTest, ManualSeedRepeats) {
  EXPECT_EQ(Run("manual_seed(5); _a = rand(3); _b = rand(3); manual_seed(5); _c = rand(3); _d = rand(3)"), "");
  EXPECT_EQ(Run("(_a == _c).all().item(), (_b == _d).all().item(), (_a == _b).all().item()"), "(True, True, False)");
  EXPECT_EQ(Run("manual_seed(5); (concat([_a, _b]) == rand(6)).all().item()"), "True");
}

TEST_F(EvaluatorTest, OpsByFunctionMethodOperatorAndAlias) {
  Run("X = tensor([[1., -2.], [3., 4.]])");
  EXPECT_EQ(Run("relu(X)"), "tensor([[1., 0.],\n        [3., 4.]])");
  EXPECT_EQ(Run("X.sum(axis=0)"), "tensor([4., 2.])");
  EXPECT_EQ(Run("X.sum(1, keepdim=True)"), "tensor([[-1.],\n        [ 7.]])");
  EXPECT_EQ(Run("X.sum(dim=(0, 1))"), "tensor(6.)");
  EXPECT_EQ(Run("X.mean()"), "tensor(1.5000)");
  EXPECT_EQ(Run("X.max(axis=1), X.argmax(dim=1)"), "(tensor([1., 4.]), tensor([0, 1]))");
  EXPECT_EQ(Run("tensor([1., 2., 3., 4.]).var(), tensor([1., 2., 3., 4.]).var(unbiased=True)"),
            "(tensor(1.2500), tensor(1.6667))");
  EXPECT_EQ(Run("2 - X"), "tensor([[ 1.,  4.],\n        [-1., -2.]])");
  EXPECT_EQ(Run("X.mul(2).sub(1) - X.neg()"), "tensor([[ 2., -7.],\n        [ 8., 11.]])");
  EXPECT_EQ(Run("X @ X.T"), "tensor([[ 5., -5.],\n        [-5., 25.]])");
  EXPECT_EQ(Run("X > 0"), "tensor([[ True, False],\n        [ True,  True]])");
  EXPECT_EQ(Run("~(X > 0) | (X == 4)"), "tensor([[False,  True],\n        [False,  True]])");
  EXPECT_EQ(Run("where(X > 0, X, 0)"), "tensor([[1., 0.],\n        [3., 4.]])");
  EXPECT_EQ(Run("X.clamp(min=0, max=3), clip(X, -1)"),
            "(tensor([[1., 0.],\n        [3., 3.]]), tensor([[ 1., -1.],\n        [ 3.,  4.]]))");
  EXPECT_EQ(Run("softmax(zeros(2, 2), dim=1)"), "tensor([[0.5000, 0.5000],\n        [0.5000, 0.5000]])");
  EXPECT_EQ(Run("cat([X, X], dim=1).shape, stack((X, X)).shape, concat([X, X], 0).shape"),
            "((2, 4), (2, 2, 2), (4, 2))");
  EXPECT_EQ(Run("tensor([-3, 3, -7, 7]) // tensor([2, -2, -2, 2])"), "tensor([-2, -2,  3,  3])");
  EXPECT_EQ(Run("tensor([5, 5, -5, -5]) % 3, fmod(tensor([5, -5]), 3)"), "(tensor([2, 2, 1, 1]), tensor([ 2, -2]))");
  EXPECT_EQ(Run("torch.exp(torch.zeros(1)), F.relu(X).sum(), nn.functional.relu(X).sum()"),
            "(tensor([1.]), tensor(8.), tensor(8.))");
  EXPECT_EQ(Run("sqrt(4)"), "tensor(2.)");
  EXPECT_EQ(Run("allclose(X, X + 1e-9), allclose(X, X + 1)"), "(True, False)");
}

TEST_F(EvaluatorTest, WindowsTakeTheirArgumentsInPyTorchsOrder) {
  EXPECT_EQ(Run("conv2d(ones(1, 4, 4, 4), ones(4, 4, 2, 2), None, 2).shape"), "(1, 4, 2, 2)");
  EXPECT_EQ(Run("conv2d(ones(1, 2, 4, 4), ones(2, 1, 3, 3), None, 1, 1, 1, 2).shape"), "(1, 2, 4, 4)");
  EXPECT_EQ(Run("max_pool2d(ones(1, 1, 4, 6), 2).shape"), "(1, 1, 2, 3)");
  EXPECT_EQ(Run("max_pool2d(ones(1, 1, 5, 5), 3, 1, 1).shape"), "(1, 1, 5, 5)");
  EXPECT_EQ(Run("avg_pool2d(ones(1, 1, 5, 5), (3, 3), padding=1, stride=2).shape"), "(1, 1, 3, 3)");
}

TEST_F(EvaluatorTest, Views) {
  Run("X = arange(6).reshape(2, 3)");
  EXPECT_EQ(Run("X.T.shape, X.reshape(3, -1).shape, X.view((6,)).shape, X.flatten().shape"),
            "((3, 2), (3, 2), (6,), (6,))");
  EXPECT_EQ(Run("X.t()"), "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])");
  EXPECT_EQ(Run("X.unsqueeze(0).shape, X.unsqueeze(0).squeeze().shape, X.permute(1, 0).shape"),
            "((1, 2, 3), (2, 3), (3, 2))");
  EXPECT_EQ(Run("ones(2, 3, 4).transpose(0, 2).shape, ones(2, 3, 4).mT.shape"), "((4, 3, 2), (2, 4, 3))");
  EXPECT_EQ(Run("ones(1, 3).expand(2, -1).shape, X.diagonal()"), "((2, 3), tensor([0, 4]))");
  EXPECT_EQ(Run("ones(2, 3, 4, 5).flatten(1, 2).shape"), "(2, 12, 5)");
  EXPECT_THAT(Run("X.reshape(4, 2)"), HasSubstr("SHAPE_MISMATCH"));
}

TEST_F(EvaluatorTest, Indexing) {
  Run("X = arange(12).reshape(3, 4)");
  EXPECT_EQ(Run("X[0]"), "tensor([0, 1, 2, 3])");
  EXPECT_EQ(Run("X[-1, -1]"), "tensor(11)");
  EXPECT_EQ(Run("X[1:, ::2]"), "tensor([[ 4,  6],\n        [ 8, 10]])");
  EXPECT_EQ(Run("X[::-1, 0]"), "tensor([8, 4, 0])");
  EXPECT_EQ(Run("X[0, 5:2:-1], X[0, -3:-1], X[0, 2:100]"), "(tensor([3]), tensor([1, 2]), tensor([2, 3]))");
  EXPECT_EQ(Run("X[2:1].shape, X[..., 0].shape, X[None].shape, X[:, None, 1:3].shape, X[...].shape"),
            "((0, 4), (3,), (1, 3, 4), (3, 1, 2), (3, 4))");
  EXPECT_EQ(Run("X[[0, 2]]"), "tensor([[ 0,  1,  2,  3],\n        [ 8,  9, 10, 11]])");
  EXPECT_EQ(Run("X[:, tensor([3, 0])]"), "tensor([[ 3,  0],\n        [ 7,  4],\n        [11,  8]])");
  EXPECT_EQ(Run("X[1, tensor([[0, 1]])].shape"), "(1, 2)");
  EXPECT_EQ(Run("take(X, tensor([0, 11])), X.take(tensor([1]), axis=0).shape"), "(tensor([ 0, 11]), (1, 4))");
  EXPECT_EQ(Run("arange(10)[9:0:-3], arange(10)[::-1][0]"), "(tensor([9, 6, 3]), tensor(9))");
  EXPECT_THAT(Run("X[3]"),
              HasSubstr("OUT_OF_RANGE INDEX_OUT_OF_RANGE: index: index 3 is out of range for axis 0 of size 3"));
  EXPECT_THAT(Run("X[0, 0, 0]"), HasSubstr("AXIS_INVALID"));
  EXPECT_THAT(Run("X[::0]"), HasSubstr("ATTRIBUTE_INVALID: index: an index is 0; allowed: a step that is not 0"));
  EXPECT_THAT(Run("X[X > 3]"), HasSubstr("UNIMPLEMENTED NOT_OFFERED"));
  EXPECT_THAT(Run("X[True]"), HasSubstr("UNIMPLEMENTED NOT_OFFERED"));
  EXPECT_THAT(Run("X[0.5]"), HasSubstr("ATTRIBUTE_INVALID"));
}

TEST_F(EvaluatorTest, AttributesAndNumbersOut) {
  Run("X = ones(2, 3, device='cuda:0')");
  EXPECT_EQ(Run("X.shape, X.dtype, X.ndim, X.numel(), X.size(1), X.nbytes, X.is_cuda"),
            "((2, 3), torch.float32, 2, 6, 3, 24, True)");
  EXPECT_EQ(Run("X.sum().item(), float(X.sum()), int(X.sum()), bool(X.any())"), "(6.0, 6.0, 6, True)");
  EXPECT_EQ(Run("X.tolist(), tensor([[True], [False]]).tolist()"),
            "([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], [[True], [False]])");
  EXPECT_EQ(Run("X.dtype == float32, X.device == device('cuda:0'), X.device == 'cuda', X.shape == (2, 3)"),
            "(True, True, True, True)");
  EXPECT_EQ(Run("len(X), len(X.shape), X.device.type, X.device.index"), "(2, 2, 'cuda', 0)");
  EXPECT_THAT(Run("X.item()"), HasSubstr("only a tensor of one element is a number"));
  EXPECT_THAT(Run("X.sum"), HasSubstr("<function sum>"));
  EXPECT_THAT(Run("X.foo"), HasSubstr("UNIMPLEMENTED OP_UNKNOWN: no op is called foo"));
  EXPECT_THAT(Run("X.summ()"), HasSubstr("nearest: sum"));
  EXPECT_THAT(Run("X.add_(1)"), HasSubstr("NOT_OFFERED: add_ (tensors are immutable"));
}

TEST_F(EvaluatorTest, CastsAndMoves) {
  Run("X = tensor([0.5, 2.9, -2.9])");
  EXPECT_EQ(Run("X.to(int32)"), "tensor([ 0,  2, -2], dtype=torch.int32)");
  EXPECT_EQ(Run("X.half().dtype, X.double().dtype, X.long().dtype, X.bool().dtype, X.astype(int).dtype, cast(X, "
                "'bfloat16').dtype"),
            "(torch.float16, torch.float64, torch.int64, torch.bool, torch.int64, torch.bfloat16)");
  EXPECT_EQ(Run("X.to('cuda:0', float16).device, X.cuda().dtype, X.to(X.cuda()).device"),
            "(device(type='cuda', index=0), torch.float32, device(type='cuda', index=0))");
  EXPECT_EQ(Run("X.cpu() is X, X.to('cpu') is X, X.to(float32) is X, X.clone() is X, X.cuda() is X"),
            "(True, True, True, False, False)");
  EXPECT_EQ(Run("Y = X; Y is X"), "True");
  EXPECT_THAT(Run("X.to('tpu')"), HasSubstr("DEVICE_UNKNOWN"));
  EXPECT_THAT(Run("device('tpu')"), HasSubstr("DEVICE_UNKNOWN: no device tpu; there are cpu, cuda:0"));
  EXPECT_EQ(Run("device('cuda:7')"), "device(type='cuda', index=7)");
}

TEST_F(EvaluatorTest, AssignmentPublishesAndCopiesNothing) {
  EXPECT_EQ(Run("X = ones(1000); Y = X"), "");
  const auto list = engine_->ListTensors({}, {});
  ASSERT_TRUE(list.ok());
  uint64_t buffers = engine_->CountAlive().buffers;
  EXPECT_EQ(buffers, 1u);
  Run("X = X + 1");
  EXPECT_EQ(Run("X[0].item(), Y[0].item()"), "(2.0, 1.0)");
  // Another session finds the names.
  Reopen({});
  EXPECT_EQ(Run("(X + Y)[0]"), "tensor(3.)");
  EXPECT_EQ(Run("del X, Y"), "");
  EXPECT_THAT(Run("X"), HasSubstr("NOT_FOUND NAME_UNKNOWN"));
  EXPECT_EQ(engine_->CountAlive().names, 0u);
}

TEST_F(EvaluatorTest, SessionNamesAndValuesEndWithTheSession) {
  Run("_t = ones(2); n = 3; L = [_t, 1]; X = _t");
  EXPECT_EQ(Run("_t + n, L[1]"), "(tensor([4., 4.]), 1)");
  Reopen({});
  EXPECT_THAT(Run("_t"), HasSubstr("NAME_UNKNOWN"));
  EXPECT_THAT(Run("n"), HasSubstr("NAME_UNKNOWN"));
  EXPECT_EQ(Run("X"), "tensor([1., 1.])");
}

TEST_F(EvaluatorTest, NamesThatAreNoWords) {
  Run("X = ones(2)");
  PublishRequest request;
  request.source = TensorRef::Name("X");
  request.name = "encoder.weight-1";
  ASSERT_TRUE(engine_->Publish({}, request).ok());
  EXPECT_EQ(Run("named('encoder.weight-1') + 1"), "tensor([2., 2.])");
  EXPECT_THAT(Run("named('encoder.bias')"), HasSubstr("NOT_FOUND NAME_UNKNOWN"));
}

TEST_F(EvaluatorTest, ListsHoldWhatNamesMeantThen) {
  EXPECT_EQ(Run("X = zeros(1); L = [X]; X = ones(1); L[0], X"), "(tensor([0.]), tensor([1.]))");
  EXPECT_EQ(Run("Y = full((1,), 5.); X, Y = Y, X; X, Y"), "(tensor([5.]), tensor([1.]))");
  EXPECT_THAT(Run("a, b = 1, 2, 3"), HasSubstr("2 names take as many values, not 3 values"));
}

TEST_F(EvaluatorTest, TemporariesLeaveNothingBehind) {
  Run("X = ones(4, device='cuda:0')");
  Run("_y = X * 2");
  const LocalEngine::Counts before = engine_->CountAlive();
  for (int i = 0; i < 20; ++i)
    Run("((X + 1) * X).sum().item(); net = 1; _y = X * 3; nn.Sequential(nn.Linear(4, 2)).to('cuda')(X)");
  const LocalEngine::Counts after = engine_->CountAlive();
  EXPECT_EQ(after.handles, before.handles);
  EXPECT_EQ(after.buffers, before.buffers);
}

TEST_F(EvaluatorTest, AFailedStatementChangesNothingAndTheNextOneRuns) {
  Run("X = ones(2)");
  EXPECT_THAT(Run("X = X + ones(3)"), HasSubstr("SHAPE_MISMATCH"));
  EXPECT_EQ(Run("X"), "tensor([1., 1.])");
  EXPECT_THAT(Run("Y = X + unknown"), HasSubstr("NAME_UNKNOWN"));
  EXPECT_THAT(Run("Y"), HasSubstr("NAME_UNKNOWN"));
  EXPECT_THAT(Run("frobnicate(X)"), HasSubstr("NAME_UNKNOWN: no tensor, model or variable is called frobnicate"));
  EXPECT_THAT(Run("rellu(X)"), HasSubstr("nearest: relu"));
  EXPECT_THAT(Run("float32 = 3"), HasSubstr("float32 is built in; choose another name"));
  EXPECT_EQ(Run("1; 2; X +"),
            "INVALID_ARGUMENT EXPRESSION_INVALID: line 1, column 10: expected an expression, found end of line");
}

TEST_F(EvaluatorTest, LongSums) {
  std::string numbers = "1", tensors = "X", truths = "True";
  for (int i = 1; i < 1000; ++i) {
    numbers += "+1";
    tensors += " + X";
    truths += i % 2 == 0 ? " and 1" : " or 0";
  }
  EXPECT_EQ(Run(numbers), "1000");
  EXPECT_EQ(Run(truths), "True");
  EXPECT_EQ(Run("X = ones(2); " + tensors), "tensor([1000., 1000.])");
  EXPECT_EQ(Run("10 - 3 - 2, 0 or 2 and 3, 1 and 0 or 5, 0 and nothing, 1 or nothing"), "(5, 3, 5, 0, 1)");
}

TEST_F(EvaluatorTest, AMisspeltKeywordIsToBlame) {
  Run("X = ones(2)");
  EXPECT_THAT(Run("add(X, nope=3)"), HasSubstr("nope"));
  EXPECT_THAT(Run("add(X)"), HasSubstr("ARITY_INVALID"));
  EXPECT_THAT(Run("sum(axis=0)"), HasSubstr("ARITY_INVALID"));
}

TEST_F(EvaluatorTest, Models) {
  EXPECT_EQ(Run("net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2, bias=False))"), "");
  EXPECT_EQ(Run("net"),
            "Sequential(\n"
            "  (0): Linear(in_features=4, out_features=8, bias=True)\n"
            "  (1): ReLU()\n"
            "  (2): Linear(in_features=8, out_features=2, bias=False)\n"
            ")");
  EXPECT_EQ(Run("net[0].weight.shape, net[2].weight.shape, net[0].bias.shape"), "((8, 4), (2, 8), (8,))");
  EXPECT_EQ(Run("x = ones(3, 4); net(x).shape, net(x + 1).shape, net.forward(x).shape"), "((3, 2), (3, 2), (3, 2))");
  EXPECT_EQ(Run("allclose(net(x), relu(x @ net[0].weight.T + net[0].bias) @ net[2].weight.T)"), "True");
  EXPECT_EQ(Run("len(net.parameters()), net.named_parameters()[2][0]"), "(3, '2.weight')");
  EXPECT_EQ(Run("twin = net; twin[0].weight.shape"), "(8, 4)");
  EXPECT_EQ(Run("_m = nn.Linear(4, 1); _m(x).shape, _m.weight.shape"), "((3, 1), (1, 4))");
  EXPECT_EQ(Run("net = net.cuda(); net.device"), "device(type='cuda', index=0)");
  EXPECT_THAT(Run("net[2].bias"),
              HasSubstr("NOT_FOUND PARAMETER_UNKNOWN: model net has no parameter 2.bias; nearest: "));
  EXPECT_THAT(Run("net[3]"), HasSubstr("INDEX_OUT_OF_RANGE"));
  EXPECT_THAT(Run("nn.Sequential(nn.Linaer(3, 1))(x)"), HasSubstr("INVALID_ARGUMENT LAYER_INVALID"));
  EXPECT_THAT(Run("nn.Linear(1, 2, True, 4)"), HasSubstr("ARITY_INVALID"));
  EXPECT_THAT(Run("net(1)"), HasSubstr("a model takes tensors, not an integer"));
  EXPECT_EQ(Run("del net, twin"), "");
  EXPECT_THAT(Run("net"), HasSubstr("NAME_UNKNOWN"));
  // A model that another session made prints by its parameters.
  Run("other = nn.Sequential(nn.Linear(2, 1))");
  Reopen({});
  EXPECT_EQ(Run("other"), "Model(\n  (0.weight): float32[1,2] on cpu\n  (0.bias): float32[1] on cpu\n)");
  EXPECT_EQ(Run("other[0].bias.shape"), "(1,)");
  EXPECT_THAT(Run("other[7]"), HasSubstr("INDEX_OUT_OF_RANGE: index: index 7 is out of range for axis 0 of size 1"));
  EXPECT_THAT(Run("other[0][0]"), HasSubstr("INDEX_OUT_OF_RANGE"));
  Run("bare = nn.Linear(2, 1)");
  EXPECT_THAT(Run("bare[7]"), HasSubstr("INDEX_OUT_OF_RANGE"));
  Reopen({});
  EXPECT_THAT(Run("bare[0]"), HasSubstr("INDEX_OUT_OF_RANGE"));
}

TEST_F(EvaluatorTest, LargeTensorsShowTheirEdges) {
  EXPECT_EQ(Run("arange(1000000).reshape(1000, 1000)"),
            "tensor([[     0,      1,      2,  ...,    997,    998,    999],\n"
            "        [  1000,   1001,   1002,  ...,   1997,   1998,   1999],\n"
            "        [  2000,   2001,   2002,  ...,   2997,   2998,   2999],\n"
            "        ...,\n"
            "        [997000, 997001, 997002,  ..., 997997, 997998, 997999],\n"
            "        [998000, 998001, 998002,  ..., 998997, 998998, 998999],\n"
            "        [999000, 999001, 999002,  ..., 999997, 999998, 999999]])");
  // More than fits one reply comes by Download.
  EXPECT_EQ(Run("len(ones(600000).tolist())"), "600000");
}

TEST_F(EvaluatorTest, Json) {
  EvaluatorOptions options;
  options.json = true;
  Reopen(options);
  EXPECT_EQ(Run("tensor([nan, inf, -inf, 6e-7, -0.0, 1e30, 0.1])"),
            "{\"dtype\":\"float32\",\"shape\":[7],\"device\":\"cpu\",\"data\":[\"NaN\",\"Infinity\",\"-Infinity\",6e-"
            "07,-0.0,1e+30,0.1]}");
  EXPECT_EQ(Run("tensor([9007199254740993])"),
            "{\"dtype\":\"int64\",\"shape\":[1],\"device\":\"cpu\",\"data\":[9007199254740993]}");
  EXPECT_EQ(Run("1; 0.5; nan; 'a\"b'; [1, (2, None)]; float16; try_gpu()"),
            "1\n0.5\n\"NaN\"\n\"a\\\"b\"\n[1,[2,null]]\n\"float16\"\n\"cuda:0\"");
  EXPECT_EQ(Run("print(1, 'x')"), "1\n\"x\"");
}

TEST_F(EvaluatorTest, PrintAndSettings) {
  EXPECT_EQ(Run("print('sum', ones(2).sum())"), "sum tensor(2.)");
  EXPECT_EQ(Run("set_printoptions(precision=2); tensor([0.12345])"), "tensor([0.12])");
  EXPECT_EQ(Run("help(relu)"), "relu(x)\n    max(x, 0); NaN stays NaN.");
  EXPECT_EQ(Run("import torch\nfrom torch import nn\ntorch.cuda.is_available(), torch.cuda.device_count()"),
            "(True, 1)");
}

TEST_F(EvaluatorTest, Completion) {
  Run("weights = ones(2); width = 3");
  EXPECT_THAT(evaluator_->Complete("x + we"), testing::Contains("weights"));
  EXPECT_THAT(evaluator_->Complete("wi"), testing::Contains("width"));
  EXPECT_THAT(evaluator_->Complete("weights.argm"), testing::ElementsAre("argmax", "argmin"));
  EXPECT_THAT(evaluator_->Complete("nn.Lin"), testing::ElementsAre("Linear"));
}

// Every row of the table can be called: none is left without a form.
TEST_F(EvaluatorTest, EveryOpIsAFunction) {
#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary) \
  EXPECT_TRUE(IsFunction(#name)) << #name;
#include "kernels/ops/ops.def"
#undef TENSORD_OP
#define TENSORD_ALIAS(alias, op) EXPECT_NE(FindCallableOp(#alias), Op::kNone) << #alias;
#include "client/cpp/expr/aliases.def"
}

TEST(Layers, FromText) {
  const auto layer =
      ParseLayers("nn.Sequential(nn.Linear(3, 1), nn.Conv2d(1, 8, kernel_size=(3, 3)), nn.LeakyThing(0.5))");
  ASSERT_TRUE(layer.ok()) << layer.status();
  EXPECT_EQ(layer->type, "Sequential");
  ASSERT_EQ(layer->layers.size(), 3u);
  EXPECT_EQ(std::get<std::vector<int64_t>>(layer->layers[1].options.at("kernel_size").value),
            (std::vector<int64_t>{3, 3}));
  EXPECT_FALSE(ParseLayers("X + 1").ok());
  EXPECT_FALSE(ParseLayers("nn.Linear(x, 1)").ok());
}

}  // namespace
}  // namespace tensord::expr
