// The grammar: what a text means as a tree, and where and how a wrong one is refused.
#include "client/cpp/expr/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/expr/lexer.h"
#include "client/cpp/expr/problem.h"
#include "kernels/core/error.h"

namespace tensord::expr {
namespace {

std::string LiteralText(const Literal& literal) {
  if (const bool* b = std::get_if<bool>(&literal)) return *b ? "True" : "False";
  if (const uint64_t* i = std::get_if<uint64_t>(&literal)) return std::to_string(*i);
  if (const double* d = std::get_if<double>(&literal)) return StrCat(*d, "r");
  if (const std::string* s = std::get_if<std::string>(&literal)) return StrCat("'", *s, "'");
  return "None";
}

// The tree as nested parentheses: "(+ 1 (* 2 x))".
std::string Show(const Node* node) {
  if (node == nullptr) return "_";
  std::vector<std::string> parts;
  switch (node->kind) {
    case NodeKind::kLiteral:
      return LiteralText(node->literal);
    case NodeKind::kName:
      return node->text;
    case NodeKind::kEllipsis:
      return "...";
    case NodeKind::kList:
      parts.emplace_back("list");
      break;
    case NodeKind::kTuple:
      parts.emplace_back("tuple");
      break;
    case NodeKind::kCompare:
      parts.push_back(StrJoin(node->operators, " "));
      break;
    case NodeKind::kCall:
      parts.emplace_back("call");
      break;
    case NodeKind::kAttribute:
      parts.push_back(StrCat(".", node->text));
      break;
    case NodeKind::kSubscript:
      parts.emplace_back("[]");
      break;
    case NodeKind::kSlice:
      parts.emplace_back(":");
      break;
    default:
      parts.push_back(node->text);
  }
  for (const NodePtr& child : node->children) parts.push_back(Show(child.get()));
  for (const Keyword& keyword : node->keywords) parts.push_back(StrCat(keyword.name, "=", Show(keyword.value.get())));
  return StrCat("(", StrJoin(parts, " "), ")");
}

std::string ShowStatement(const Statement& statement) {
  std::string text;
  for (const Statement::Target& target : statement.targets) {
    text += statement.kind == StatementKind::kDelete ? StrCat("del ", target.names[0], " ")
                                                     : StrCat(StrJoin(target.names, ","), " = ");
  }
  if (statement.kind == StatementKind::kImport) return "import";
  return statement.value ? text + Show(statement.value.get()) : text;
}

std::string Tree(std::string_view source) {
  const auto statements = Parse(source);
  if (!statements.ok()) return std::string(statements.status().message());
  std::vector<std::string> texts;
  for (const Statement& statement : *statements) texts.push_back(ShowStatement(statement));
  return StrJoin(texts, "; ");
}

struct Golden {
  std::string_view source;
  std::string_view tree;
};

TEST(Parser, Trees) {
  const Golden cases[] = {
      {"1 + 2 * x", "(+ 1 (* 2 x))"},
      {"(1 + 2) * x", "(* (+ 1 2) x)"},
      {"a - b - c", "(- (- a b) c)"},
      {"-x ** 2", "(- (** x 2))"},
      {"2 ** -1", "(** 2 (- 1))"},
      {"2 ** 3 ** 2", "(** 2 (** 3 2))"},
      {"a @ b + c", "(+ (@ a b) c)"},
      {"a | b ^ c & d << 1 + 2", "(| a (^ b (& c (<< d (+ 1 2)))))"},
      {"~x & mask", "(& (~ x) mask)"},
      {"a < b <= c", "(< <= a b c)"},
      {"not a == b", "(not (== a b))"},
      {"a and b or not c", "(or (and a b) (not c))"},
      {"Z.cuda(0) is Z", "(is (call (.cuda Z) 0) Z)"},
      {"x is not None", "(is not x None)"},
      {"a // b % c / d", "(/ (% (// a b) c) d)"},
      {"ones(2, 3, device=try_gpu())", "(call ones 2 3 device=(call try_gpu))"},
      {"nn.Sequential(nn.Linear(3, 1),)", "(call (.Sequential nn) (call (.Linear nn) 3 1))"},
      {"net[0].weight.data.device", "(.device (.data (.weight ([] net 0))))"},
      {"X[1:, ::2]", "([] X (: 1 _ _) (: _ _ 2))"},
      {"X[..., None, -1]", "([] X ... None (- 1))"},
      {"X[:-1:2][0]", "([] ([] X (: _ (- 1) 2)) 0)"},
      {"(1)", "1"},
      {"(1,)", "(tuple 1)"},
      {"()", "(tuple)"},
      {"1, 2", "(tuple 1 2)"},
      {"[[1, 2], [3, 4],]", "(list (list 1 2) (list 3 4))"},
      {"1e3 + .5 + 2.", "(+ (+ 1000r 0.5r) 2r)"},
      {"0x1F + 0b101 + 0o17 + 1_000", "(+ (+ (+ 31 5) 15) 1000)"},
      {"18446744073709551615", "18446744073709551615"},
      {"'a' \"b\"", "'ab'"},
      {R"('it\'s\n\x41')", "'it's\nA'"},
      {"True, False, None", "(tuple True False None)"},
      {"X = ones(2)", "X = (call ones 2)"},
      {"a = b = 1", "a = b = 1"},
      {"a, b = b, a", "a,b = (tuple b a)"},
      {"X += 1", "X = (+ X 1)"},
      {"X //= 2", "X = (// X 2)"},
      {"X **= 2; Y @= W", "X = (** X 2); Y = (@ Y W)"},
      {"del X, Y", "del X del Y "},
      {"import torch\nfrom torch import nn", "import; import"},
      {"x # a comment; not code", "x"},
      {"f(1,\n  2)\n\n  y", "(call f 1 2); y"},
      {"a + \\\n b", "(+ a b)"},
      {"", ""},
      {"  \n # nothing\n", ""},
  };
  for (const Golden& c : cases) EXPECT_EQ(Tree(c.source), c.tree) << c.source;
}

struct Wrong {
  std::string_view source;
  std::string_view message;
};

TEST(Parser, Refusals) {
  const Wrong cases[] = {
      {"X + )", "line 1, column 5: expected an expression, found ')'"},
      {"X +", "line 1, column 4: expected an expression, found end of line"},
      {"X = ", "line 1, column 5: expected an expression, found end of line"},
      {"ones(2, 3", "line 1, column 10: expected ',' or ')', found end of line"},
      {"ones(2 3)", "line 1, column 8: expected ',' or ')', found the number 3"},
      {"X[1", "line 1, column 4: expected ',' or ']', found end of line"},
      {"X[]", "line 1, column 3: expected an index, found ']'"},
      {"X Y", "line 1, column 3: expected an operator or the end of the statement, found 'Y'"},
      {"a\nb +\nc", "line 2, column 4: expected an expression, found end of line"},
      {"x.3", "line 1, column 2: expected an operator or the end of the statement, found the number 0.3"},
      {"X.", "line 1, column 3: expected the name of an attribute or method, found end of line"},
      {"f(a=1, 2)", "line 1, column 8: a positional argument follows a keyword argument"},
      {"f(a=1, a=2)", "line 1, column 8: a is given twice"},
      {"f(*x)", "line 1, column 3: expected an argument (unpacking is not offered), found '*'"},
      {"X[0] = 1",
       "line 1, column 6: tensors are immutable: make a new one (where, concat, +) and assign that to a name"},
      {"X.data = 1",
       "line 1, column 8: tensors are immutable: make a new one (where, concat, +) and assign that to a name"},
      {"1 = X", "line 1, column 3: only a name can stand left of ="},
      {"for x in y", "line 1, column 1: 'for' is not offered: a statement is an expression, an assignment or del"},
      {"[x for x in y]", "line 1, column 4: 'for' is not offered in expressions"},
      {"lambda x: x", "line 1, column 1: 'lambda' is not offered"},
      {"1 if x else 2", "line 1, column 3: 'if' is not offered in expressions"},
      {"{1: 2}", "line 1, column 1: sets and dictionaries are not offered"},
      {"x := 1", "line 1, column 3: assignment is a statement here: write NAME = value"},
      {"import os", "line 1, column 8: expected torch, tensord or numpy (everything is built in), found 'os'"},
      {"del X[0]", "line 1, column 6: expected ',' or the end of the statement (only names can be deleted), found '['"},
      {"1 $ 2", "line 1, column 3: no expression has the character '$' here"},
      {"X + \xC3\xA9", "line 1, column 5: no expression has the character '\xC3\xA9' here"},
      {"a\xFF", "line 1, column 2: no expression has the character '\\xff' here"},
      {"'abc", "line 1, column 1: the string has no end on its line"},
      {"'\\q'", "line 1, column 2: no such escape; there are \\\\ \\' \\\" \\n \\t \\r \\0 \\xNN"},
      {"18446744073709551616", "line 1, column 1: the integer is too large: 18446744073709551615 is the largest"},
      {"12abc", "line 1, column 1: 12abc is no number"},
      {"2j", "line 1, column 1: 2j is no number (complex numbers are not offered)"},
      {"007", "line 1, column 1: a decimal integer does not begin with 0 (octal is 0o17)"},
      {"1__0", "line 1, column 1: 1__0 is no number"},
      {"\"\"\"x\"\"\"", "line 1, column 1: expected a string in single quotes, found a triple quote"},
      {"f'x'", "line 1, column 1: expected a plain string, found a string with the prefix f"},
      {"!x", "line 1, column 1: no expression has the character '!' here"},
  };
  for (const Wrong& c : cases) EXPECT_EQ(Tree(c.source), c.message) << c.source;
}

TEST(Parser, RefusalsAreStatusesWithPlaceAndCaret) {
  const absl::Status status = Parse("a\n\xC3\xA9 = 1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const ErrorDetails details = DetailsOf(Parse("X = ones(2 3)").status());
  EXPECT_EQ(details.reason_name, "EXPRESSION_INVALID");
  EXPECT_EQ(details.Get("line"), "1");
  EXPECT_EQ(details.Get("column"), "12");
  EXPECT_EQ(details.Get("expected"), "',' or ')'");
  EXPECT_EQ(details.Get("found"), "the number 3");
  EXPECT_EQ(CaretLines(Parse("X = ones(2 3)").status()), "    X = ones(2 3)\n               ^\n");
  // Columns count characters, not bytes, and a tab stays a tab.
  EXPECT_EQ(CaretLines(Parse("\t'\xC3\xA9' $").status()), "    \t'\xC3\xA9' $\n    \t    ^\n");
}

TEST(Parser, DepthIsBounded) {
  const auto nested = [](std::string_view open, std::string_view close, int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += open;
    text += "x";
    for (int i = 0; i < n; ++i) text += close;
    return text;
  };
  EXPECT_TRUE(Parse(nested("(", ")", 150)).ok());
  for (const std::string& text :
       {nested("(", ")", 100000), nested("[", "]", 100000), nested("-", "", 100000), nested("not ", "", 100000),
        nested("f(", ")", 100000), nested("2 ** ", "", 100000), nested("", ".T", 100000)}) {
    const absl::Status status = Parse(text).status();
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("nested deeper than 200 levels"))
        << text.substr(0, 10);
  }
  // Chains of left-associative operators are one level, and bounded by their length.
  for (const std::string_view op : {" + 1", " * 2", " @ y", " and y", " or y"}) {
    EXPECT_TRUE(Parse(nested("", op, 1500)).ok()) << op;
    EXPECT_THAT(std::string(Parse(nested("", op, 100000)).status().message()),
                testing::HasSubstr("more than 2000 operators in a row"))
        << op;
  }
  // Brackets do not add up to more.
  std::string text = "x";
  for (int i = 0; i < 50; ++i) text = "(" + text + ")" + nested("", " + 1", 100).substr(1);
  EXPECT_FALSE(Parse(text).ok());
}

TEST(Parser, NeedsMoreLines) {
  EXPECT_TRUE(NeedsMoreLines("ones(2,"));
  EXPECT_TRUE(NeedsMoreLines("X[1:\n"));
  EXPECT_TRUE(NeedsMoreLines("a + \\\n"));
  EXPECT_FALSE(NeedsMoreLines("ones(2)"));
  EXPECT_FALSE(NeedsMoreLines("ones 2)"));
  EXPECT_FALSE(NeedsMoreLines("'(' + 'x'"));
  EXPECT_FALSE(NeedsMoreLines("x # ("));
  EXPECT_TRUE(NeedsMoreLines("x = [1,2"));
  EXPECT_TRUE(NeedsMoreLines("f(a=1,\n\n# more\n"));
  // Nothing that follows could mend these.
  EXPECT_FALSE(NeedsMoreLines("x = (1,\nones(2]"));
  EXPECT_FALSE(NeedsMoreLines("x = [1,2\ny = 3"));
  EXPECT_FALSE(NeedsMoreLines("f(1 2"));
  EXPECT_FALSE(NeedsMoreLines("f(a=1, 2"));
  EXPECT_FALSE(NeedsMoreLines(") + ("));
  EXPECT_FALSE(NeedsMoreLines("1 +\nf("));
}

}  // namespace
}  // namespace tensord::expr
