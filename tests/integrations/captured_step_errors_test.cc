// What is wrong with a captured step, in words that say what would be right.

#include <gtest/gtest.h>

#include <string>

#include "integrations/formats/import_captured_step.h"

namespace tidemark {
namespace {

struct Case {
  const char* name;
  std::string text;
  std::string complaint;  ///< begins so; empty: none
};

const std::string kGraph = "G 3 2\nN 0 1 10 0 a\nN 1 1 10 0 b\nN 2 1 10 1 c\nE 0 1\nE 1 2\n";
const std::string kHead = R"({"tidemark_graph": 1, "storages": [{"bytes": 8}], "ops": [)";

std::string json(const std::string& storage, const std::string& op, const std::string& top = "") {
  return R"({"tidemark_graph": 1, )" + top + R"("storages": [{)" + storage + R"(}], "ops": [{)" + op + "}]}";
}
const std::string kBytes = R"("bytes": 8)", kOp = R"("cost": 1, "reads": [], "writes": [0])";

std::string name_of(const ::testing::TestParamInfo<Case>& one) {
  return one.param.name;
}

class CapturedStepText : public ::testing::TestWithParam<Case> {};

TEST_P(CapturedStepText, IsReadOrSaysWhy) {
  const Result<formats::CapturedStep> step = formats::read_captured_step(GetParam().text, "f");
  const std::string complaint = step ? "" : step.error().message;
  if (GetParam().complaint.empty())
    EXPECT_EQ(complaint, "");
  else
    EXPECT_TRUE(complaint.starts_with("f:" + GetParam().complaint)) << complaint;
}

INSTANTIATE_TEST_SUITE_P(Kinds, CapturedStepText,
                         ::testing::Values(Case{"Graph", kGraph, ""},
                                           Case{"GraphBehindAMark", "\xef\xbb\xbf" + kGraph, ""},
                                           Case{"Json", json(kBytes, kOp), ""},
                                           Case{"JsonBehindAMark", "\xef\xbb\xbf" + json(kBytes, kOp), ""},
                                           Case{"List", "[]\n", " neither a JSON object nor a .graph or .swapgraph"},
                                           Case{"Number", "3", " neither a JSON object nor a .graph or .swapgraph"},
                                           Case{"Null", " null", " neither a JSON object nor a .graph or .swapgraph"}),
                         name_of);

const std::string kNodes = "G 3 2\nN 0 1 10 0 a\nN 1 1 10 0 b\nN 2 1 10 1 c\n";
const std::string kForward = "it must be src < dst: edges point forward";

/// A file of two nodes with these many columns each.
std::string columns(int first, int second) {
  const auto node = [](int index, int count) {
    std::string line = "N " + std::to_string(index) + " 1 10 0 a";
    for (int i = 6; i < count; ++i) line += " 1";
    return line.substr(0, count < 6 ? line.rfind(' ') : line.size()) + "\n";
  };
  return "G 2 0\n" + node(0, first) + node(1, second);
}

std::string wrong_columns(int line, int found, bool swaps) {
  return std::to_string(line) + ": a node of a " +
         (swaps ? ".swapgraph has 9 columns, `N idx cost bytes backward name compute_J pagein_J pageout_J`; here are "
                : ".graph has 6 columns, `N idx cost bytes backward name`; here are ") +
         std::to_string(found) + ", and a name has no blanks";
}

/// What would be without effect is refused: a name with blanks is not cut.
INSTANTIATE_TEST_SUITE_P(Columns, CapturedStepText,
                         ::testing::Values(Case{"SixAsAGraph", columns(6, 6), ""},
                                           Case{"NineAsASwapgraph", columns(9, 9), ""},
                                           Case{"Five", columns(5, 6), wrong_columns(2, 5, false)},
                                           Case{"Seven", columns(7, 6), wrong_columns(2, 7, false)},
                                           Case{"Eight", columns(8, 8), wrong_columns(2, 8, false)},
                                           Case{"Ten", columns(10, 10), wrong_columns(2, 10, false)},
                                           Case{"FiveLater", columns(6, 5), wrong_columns(3, 5, false)},
                                           Case{"SevenLater", columns(6, 7), wrong_columns(3, 7, false)},
                                           Case{"NineInAGraph", columns(6, 9), wrong_columns(3, 9, false)},
                                           Case{"SixInASwapgraph", columns(9, 6), wrong_columns(3, 6, true)},
                                           Case{"TenInASwapgraph", columns(9, 10), wrong_columns(3, 10, true)},
                                           Case{"NineWithABlankName", "G 1 0\nN 0 1 10 0 my name of three\n",
                                                "2: compute_J is 'name'; it must be a number"}),
                         name_of);

/// Costs are read whatever is asked for: else a name with blanks would be cut where time is.
TEST(CapturedStepColumns, JoulesAreNumbersAlsoWhereTimeIsAsked) {
  const Result<formats::CapturedStep> step =
      formats::read_captured_step("G 1 0\nN 0 1 10 0 my name of three\n", "f", formats::StepObjective::time);
  ASSERT_FALSE(step.ok());
  EXPECT_TRUE(step.error().message.starts_with("f:2: compute_J is 'name'")) << step.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Edges, CapturedStepText,
    ::testing::Values(Case{"BeforeTheNodes", "G 2 1\nE 0 1\nN 0 1 10 0 a\nN 1 1 10 0 b\n",
                           "2: dst is 1, and there is no node 1 yet; nodes stand before the edges that name them"},
                      Case{"Backward", kNodes + "E 2 1\n", "5: src is 2, dst is 1; " + kForward},
                      Case{"ToItself", kNodes + "E 1 1\n", "5: src is 1, dst is 1; " + kForward},
                      Case{"ToNoNode", kNodes + "E 1 3\n", "5: dst is '3'; it must be a whole number from 0 to 2"},
                      Case{"FromNoNode", kNodes + "E -1 2\n", "5: src is '-1'; it must be a whole number from 0 to 2"},
                      Case{"OfOneNode", "G 1 1\nN 0 1 10 0 a\nE 1 0\n", "3: src is '1'; it must be 0"},
                      Case{"TooMany", kNodes + "E 0 1\nE 1 2\nE 0 2\n", "7: more than the 2 edges that line G states"},
                      Case{"TooFew", kNodes + "E 0 1\n", "5: line G states 2 edges, the file has 1; is it cut short?"},
                      Case{"NumbersOutOfOrder", "G 1 0\nN 1 1 10 0 a\n", "2: idx is '1'; it must be 0"},
                      Case{"OtherVersion", R"({"tidemark_graph": 2})", " /tidemark_graph: must be 1"}),
    name_of);

const std::string kLong(1000, 'k');

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Json, CapturedStepText,
    ::testing::Values(
        Case{"EveryKey",
             json(R"("name": "s", "module": null, "role": "saved", "bytes": 8, "bound_bytes": 9, "pinned_until": 0,
                     "until_end": false, "swappable": true, "page_out_cost": 1, "page_in_cost": 1)",
                  R"("name": "o", "module": "m", "cost": 1, "reads": [], "writes": [0], "transient_bytes": 1,
                     "phase": "forward", "recompute": "pure", "told": true)",
                  R"("name": "n", "cost_unit": "one", )"),
             ""},
        Case{"NoCost", json(kBytes, R"("reads": [], "writes": [0])"), " /ops/0: has no member 'cost'"},
        Case{"PageOutAlone", json(kBytes + R"(, "page_out_cost": 1)", kOp), " /storages/0: has one of page_out_cost"},
        Case{"PageInAlone", json(kBytes + R"(, "page_in_cost": 1)", kOp), " /storages/0: has one of page_out_cost"},
        Case{"OneOfThemWithALink",
             json(kBytes + R"(, "page_in_cost": 1)", kOp,
                  R"("cost_unit": "ns", "link": {"out_bytes_per_second": 1e9, "in_bytes_per_second": 1e9}, )"),
             ""},
        Case{"MisspeltInAStorage", json(kBytes + R"(, "untilend": true)", kOp),
             " /storages/0: has an unknown member 'untilend'; did you mean 'until_end'?"},
        Case{"MisspeltInAnOp", json(kBytes, kOp + R"(, "phases": "forward")"),
             " /ops/0: has an unknown member 'phases'; did you mean 'phase'?"},
        Case{"MisspeltThoughNeeded", json(kBytes, R"("cots": 1, "reads": [], "writes": [0])"),
             " /ops/0: has an unknown member 'cots'; did you mean 'cost'?"},
        Case{"UnknownAtTheTop", json(kBytes, kOp, R"("budget": 3, )"),
             " /: has an unknown member 'budget'; it knows tidemark_graph, name"},
        Case{"TwiceAtTheTop", json(kBytes, kOp, R"("cost_unit": "ns", "cost_unit": "joule", )"),
             " /: has the member 'cost_unit' twice"},
        Case{"TwiceInAnOp", kHead + "{" + kOp + "}, {" + kOp + R"(, "cost": 2}]})",
             " /ops/1: has the member 'cost' twice"},
        Case{"EscapesTwice", R"({"\u001b[31m": 1, "\u001b[31m": 2})", " /: has the member '?[31m' twice"},
        Case{"BelowEscapes", R"({"a\u001b[2J": {"b": 1, "b": 2}})", " /a?[2J: has the member 'b' twice"},
        Case{"BelowSlashAndTilde", R"({"a/b~c": {"~/": 1, "~/": 2}})", " /a~1b~0c: has the member '~/' twice"},
        Case{"LongTwice", "{\"" + kLong + "\": 1, \"" + kLong + "\": 2}",
             " /: has the member '" + kLong.substr(0, 40) + "...' twice"},
        Case{"BelowALong", "{\"" + kLong + R"(": [0, {"a": 1, "a": 2}]})",
             " /" + kLong.substr(0, 40) + ".../1: has the member 'a' twice"},
        Case{"FarBelow", R"({"k":)" + repeated("[", 99) + R"({"a": 1, "a": 2})" + repeated("]", 99) + "}",
             " /k" + repeated("/0", 15) + "/...: has the member 'a' twice"}),
    name_of);

}  // namespace
}  // namespace tidemark
