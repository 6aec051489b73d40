#include "kernels/core/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/core/text.h"

namespace tensord {
namespace {

constexpr std::string_view kNames[] = {"add", "subtract", "multiply", "divide", "softmax", "log_softmax", "sum"};

TEST(Nearest, FindsWhatWasMeant) {
  EXPECT_EQ(NearestNames("ad", kNames), "add");
  EXPECT_EQ(NearestNames("mutliply", kNames), "multiply") << "a transposition counts as one";
  EXPECT_EQ(NearestNames("sofmax", kNames), "softmax");
  EXPECT_EQ(NearestNames("add", kNames).substr(0, 3), "add");
}

TEST(Nearest, AtMostThreeNearestFirst) {
  constexpr std::string_view kMany[] = {"abcf", "abcd", "abce", "abcg", "abcde"};
  EXPECT_EQ(NearestNames("abcd", kMany), "abcd, abcde, abce");
}

TEST(Nearest, NothingNear) {
  EXPECT_EQ(NearestNames("einsum_of_everything", kNames), "");
  EXPECT_EQ(NearestNames("x", {}), "");
  EXPECT_EQ(NearestNames(std::string(100000, 'a'), kNames), "") << "a long name costs nothing";
}

TEST(Text, Assembles) {
  EXPECT_EQ(StrCat("a", 1, -2, true, 2.5, std::string("b"), std::string_view("c")), "a1-2true2.5bc");
  EXPECT_EQ(StrCat(0.1f), "0.10000000149011612") << "a float is shown as the double that equals it";
  EXPECT_EQ(StrCat(1e300), "1e+300");
  EXPECT_EQ(StrJoin(std::vector<int>{1, 2, 3}, ","), "1,2,3");
  EXPECT_EQ(StrJoin(std::vector<std::string>{}, ","), "");
}

}  // namespace
}  // namespace tensord
