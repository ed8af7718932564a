// The verbs as scripts and people use them, on the small model and once on the reference job.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "tests/support/json_text.h"
#include "tests/support/program_run.h"

namespace tidemark::testing {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The answer as JSON. Fails the test if the run does not end with `status` or prints anything to stderr.
Json json_of(const Workplace& place, const Words& arguments, int status = 0) {
  const Ran ran = place.run(with(arguments, {"--format", "json"}));
  EXPECT_EQ(ran.status, status) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(ran.out.back(), '\n');
  return parsed(ran.out);
}

Json without_seconds(Json json) {
  EXPECT_TRUE(json.contains("seconds"));
  json.erase("seconds");
  return json;
}

/// The largest value of a field over the ranks of an answer.
Bytes largest(const Json& answer, const char* field) {
  Bytes most = 0;
  for (const Json& rank : answer.at("ranks")) most = std::max(most, rank.at(field).get<Bytes>());
  return most;
}

/// The small model where it needs decisions: a budget between what keep-all takes and the least. One load, so that one
/// round of planning does.
const Words& tight() {
  static const Words words = [] {
    const Workplace place;
    const Words job = {small_model(), "--imbalance", "1.2"};
    const Bytes highest =
        largest(json_of(place, with({"check", "--budget", "1TiB"}, job)).at("jobs").at(0), "peak_bytes");
    const Bytes least = largest(json_of(place, with({"plan", "--budget", "1B"}, job), 1), "smallest_budget_bytes");
    EXPECT_LT(least, highest);
    return with(job, {"--budget", std::to_string((least + highest) / 2) + "B"});
  }();
  return words;
}

// The names that outsiders script against.
/// `worst`: the most rows there can be on one device, over the mean.
void expect_contract(const Json& json, std::size_t ranks, double worst) {
  const std::vector<std::string> whole = {"rank",          "peak_bytes",
                                          "budget_bytes",  "static_bytes",
                                          "reserve_bytes", "activation_peak_bytes",
                                          "host_bytes",    "swapped_bytes_per_step"};
  const std::vector<std::string> real = {"recompute_ms", "exposed_copy_ms", "added_ms", "lower_bound_percent",
                                         "worst_load_f"};
  ASSERT_EQ(json["ranks"].size(), ranks);
  for (const Json& rank : json["ranks"]) {
    for (const std::string& name : whole) {
      ASSERT_TRUE(rank.contains(name)) << name;
      EXPECT_TRUE(rank[name].is_number_integer()) << name;
      EXPECT_GE(rank[name].get<std::int64_t>(), 0) << name;
    }
    for (const std::string& name : real) {
      ASSERT_TRUE(rank.contains(name)) << name;
      EXPECT_TRUE(rank[name].is_number()) << name;
      EXPECT_GE(rank[name].get<double>(), 0) << name;
    }
    EXPECT_TRUE(rank.at("fits").is_boolean());
    EXPECT_EQ(rank["peak_bytes"].get<Bytes>(), rank["static_bytes"].get<Bytes>() + rank["reserve_bytes"].get<Bytes>() +
                                                   rank["activation_peak_bytes"].get<Bytes>());
    EXPECT_EQ(rank["worst_load_f"], worst);
  }
  for (const char* name : {"step_ms", "bubble_percent", "mfu_percent", "mfu_causal_percent", "tokens_per_s",
                           "parameters", "active_parameters", "seconds"}) {
    ASSERT_TRUE(json.contains(name)) << name;
    EXPECT_TRUE(json[name].is_number()) << name;
    EXPECT_GE(json[name].get<double>(), 0) << name;
  }
  EXPECT_GT(json["step_ms"].get<double>(), 0);
}

TEST(Plan, KeepsItsFieldNames) {
  const Workplace place;
  expect_contract(json_of(place, {"plan", small_model()}), 2, 4);
  expect_contract(json_of(place, {"estimate", small_model()}), 2, 4);
  expect_contract(json_of(place, {"simulate", small_model()}), 2, 4);
  EXPECT_TRUE(place.files().empty()) << "nothing is written without --out";
}

TEST(Plan, OptionsOfTheContract) {
  const Workplace place;
  const Json json = json_of(place, {"plan", small_model(), "--policy", "greedy", "--imbalance", "1.5", "--budget",
                                    "60GiB", "--host-budget", "1GiB", "--ranks", "1"});
  expect_contract(json, 1, 4);
  EXPECT_EQ(json["ranks"][0]["rank"], 1);
  EXPECT_EQ(json["ranks"][0]["budget_bytes"], 60 * kGiB);
  EXPECT_EQ(json["ranks"][0]["load"], 1.5);
  EXPECT_EQ(json["host_budget_bytes"], kGiB);
  EXPECT_EQ(json["policy"], "greedy");
}

TEST(Plan, SaysWhatDoesNotFitAndWhatWould) {
  const Workplace place;
  const Json json = json_of(place, {"plan", small_model(), "--budget", "1MiB"}, 1);
  Bytes smallest = 0;
  for (const Json& rank : json["ranks"]) {
    EXPECT_FALSE(rank["fits"].get<bool>());
    EXPECT_NE(rank["reason"], "");
    smallest = std::max(smallest, rank["smallest_budget_bytes"].get<Bytes>());
  }
  const Ran text = place.run({"plan", small_model(), "--budget", "1MiB"});
  EXPECT_EQ(text.status, 1);
  EXPECT_NE(text.out.find("smallest budget"), std::string::npos);
  // The budget it names is enough.
  json_of(place, {"plan", small_model(), "--budget", std::to_string(smallest) + "B"}, 0);
}

/// With little host memory state stays on the device. What is named is the host budget, and it is enough.
TEST(Plan, SaysWhichHostBudgetWouldDo) {
  const Workplace place;
  const Words job = {"plan", small_model(), "--budget", "4.6GiB"};
  const Json json = json_of(place, with(job, {"--host-budget", "100MiB"}), 1);
  Bytes enough = 0;
  for (const Json& rank : json["ranks"])
    if (!rank["fits"].get<bool>()) enough = std::max(enough, rank["smallest_host_budget_bytes"].get<Bytes>());
  ASSERT_GT(enough, 100 * kMiB);
  json_of(place, with(job, {"--host-budget", std::to_string(enough) + "B"}), 0);
  const Ran text = place.run(with(job, {"--host-budget", "100MiB"}));
  EXPECT_NE(text.out.find("of offloadable state is offloaded"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("known to do with this budget: --host-budget"), std::string::npos) << text.out;
  // A rule that swaps whatever the host budget is: no device budget would help.
  const Json fixed = json_of(place,
                             {"plan", small_model(), "--budget", "8GiB", "--policy", "published-recipe",
                              "--host-budget", "50MiB", "--ranks", "0"},
                             1);
  EXPECT_EQ(fixed["ranks"][0]["smallest_budget_bytes"], 0);
  EXPECT_EQ(fixed["ranks"][0]["smallest_host_budget_bytes"], fixed["ranks"][0]["host_bytes"]);
  EXPECT_NE(fixed["line"].get<std::string>().find("rank 0: pinned host memory: needs "), std::string::npos) << fixed;
}

TEST(Plan, SaysThatAllStateIsOffloaded) {
  const Workplace place;
  const Json json = json_of(place, {"plan", small_model(), "--budget", "4.3GiB"}, 1);
  const std::string reason = json["ranks"][1]["reason"];
  EXPECT_NE(reason.find("all offloadable state is offloaded already ("), std::string::npos) << reason;
}

TEST(Plan, SameBytesWhateverTheThreads) {
  const Workplace place;
  const Words common = with({"plan", "--quiet"}, tight());
  std::map<std::string, std::string> first;
  Json answer;
  int run = 0;
  for (const char* threads : {"1", "2"}) {
    const std::string text = place
                                 .run(with(common, {"--threads", threads, "--out", "plan.json", "--report",
                                                    "report.html", "--trace", "trace.json"}))
                                 .out;
    const Json json = without_seconds(json_of(place, with(common, {"--threads", threads})));
    std::map<std::string, std::string> now = {{"stdout", text}};
    for (const std::string& name : place.files()) now[name] = place.read(name);
    EXPECT_EQ(now.size(), 4U);
    if (run++ == 0) {
      first = now;
      answer = json;
    }
    EXPECT_EQ(now, first) << threads;
    EXPECT_EQ(json, answer) << threads;
  }
}

TEST(Plan, WorkForAddressesIsCountedAndNotTimed) {
  const Workplace place;
  const Words asked = with(with({"plan"}, tight()), {"--pack-effort", "20"});
  const Json one = without_seconds(json_of(place, with(asked, {"--threads", "1"})));
  EXPECT_EQ(one, without_seconds(json_of(place, with(asked, {"--threads", "2"}))));
  EXPECT_EQ(one.at("verdict"), "FITS");
}

/// Whatever the budget; where the plan does not fit there is none.
TEST(Plan, SaysUpToWhichLoadEveryStepCompletes) {
  const Workplace place;
  const Json fitting = json_of(place, with({"plan"}, tight()));
  for (const Json& rank : fitting["ranks"]) EXPECT_EQ(rank["worst_load_f"], 4);
  const Ran text = place.run(with({"plan", "--quiet"}, tight()));
  EXPECT_NE(text.out.find("any load up to"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("Not at every expert load"), std::string::npos) << text.out;
  const Json beyond = json_of(place, {"plan", small_model(), "--budget", "1MiB"}, 1);
  for (const Json& rank : beyond["ranks"]) EXPECT_EQ(rank["worst_load_f"], 0);
  const std::string dense = source_path("models/llama-3-70b.yaml").string();
  EXPECT_EQ(json_of(place, {"plan", dense, "--ranks", "0"})["ranks"][0]["worst_load_f"], 1);
}

TEST(Plan, WritesWhatIsAskedForAndSaysSo) {
  const Workplace place;
  place.write("plan.json", "old");
  const Ran ran =
      place.run({"plan", small_model(), "--out", "plan.json", "--report", "report.html", "--trace", "trace.json"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(place.files(), (std::set<std::string>{"plan.json", "report.html", "trace.json"}));
  EXPECT_NE(ran.err.find("wrote plan.json"), std::string::npos);
  EXPECT_EQ(ran.err.find('\x1b'), std::string::npos) << "no colour where there is no terminal";
  EXPECT_EQ(parsed(place.read("plan.json"))["schema"], "tidemark.plan");
  EXPECT_EQ(place.read("report.html").find("<!doctype html>"), 0U);
  EXPECT_TRUE(parsed(place.read("trace.json")).contains("traceEvents"));
  EXPECT_EQ(place.run({"plan", small_model(), "--out", "again.json", "--quiet"}).err, "");
  EXPECT_EQ(place.read("again.json"), place.read("plan.json"));
}

TEST(Plan, DefaultIsNeverDearerWhereOthersFit) {
  const Workplace place;
  for (const Words& more : {Words{}, Words{"--host-budget", "0B"}}) {
    const Ran ran = place.run(with(with({"plan", "--compare", "--format", "json", "--quiet"}, tight()), more));
    ASSERT_LT(ran.status, 2) << ran.err;
    const Json json = parsed(ran.out);
    ASSERT_EQ(json["policies"].size(), 6U);
    const Json* optimal = nullptr;
    for (const Json& policy : json["policies"])
      if (policy["policy"] == "optimal") optimal = &policy;
    ASSERT_NE(optimal, nullptr);
    EXPECT_EQ((*optimal)["ranks"], json["ranks"]);
    for (const Json& policy : json["policies"])
      for (std::size_t r = 0; r < policy["ranks"].size(); ++r) {
        const Json& rank = policy["ranks"][r];
        if (!rank["fits"].get<bool>()) continue;
        EXPECT_TRUE((*optimal)["ranks"][r]["fits"].get<bool>()) << policy["policy"];
        EXPECT_LE((*optimal)["ranks"][r]["added_ms"].get<double>(), rank["added_ms"].get<double>())
            << policy["policy"] << " on rank " << r;
      }
  }
  const Ran text = place.run(with({"plan", "--compare"}, tight()));
  for (const char* name : {"keep-all", "full-recompute", "published-recipe", "greedy", "optimal", "OVER"})
    EXPECT_NE(text.out.find(name), std::string::npos) << name;
}

TEST(Plan, FrontierIsWhatOtherBudgetsAnswer) {
  const Workplace place;
  const Words words = with({"plan", "--quiet", "--format", "json"}, tight());
  const Ran ran = place.run(with(words, {"--frontier", "--report", "page.html"}));
  ASSERT_LT(ran.status, 2) << ran.err;
  const Json json = parsed(ran.out);
  const Json& points = json["frontier"];
  ASSERT_GE(points.size(), 3U);
  int asked = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Json& point = points[i];
    asked += point["budget_bytes"] == json["ranks"][0]["budget_bytes"] ? 1 : 0;
    if (i == 0) continue;
    EXPECT_GT(point["budget_bytes"].get<std::int64_t>(), points[i - 1]["budget_bytes"].get<std::int64_t>());
    EXPECT_TRUE(point["fits"].get<bool>() || i == 0) << i;
    if (!points[i - 1]["fits"].get<bool>()) continue;
    EXPECT_LE(point["added_ms"].get<double>(), points[i - 1]["added_ms"].get<double>() + 1e-9) << i;
  }
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(points.back()["added_ms"], 0);  // it ends where nothing is added
  const Json& other = points[points.size() - 2];
  const std::string budget = std::to_string(other["budget_bytes"].get<std::int64_t>()) + "B";
  Words alone = words;
  *(std::ranges::find(alone, "--budget") + 1) = budget;
  const Json again = parsed(place.run(alone).out);
  EXPECT_EQ(again["step_ms"], other["step_ms"]);
  EXPECT_NE(place.read("page.html").find("What memory buys"), std::string::npos);
  EXPECT_NE(place.run(with({"plan", "--frontier"}, tight())).out.find("a GiB more saves"), std::string::npos);
}

TEST(Plan, MeasuredCountsChangeTheLoad) {
  const Workplace place;
  std::string csv = "layer,micro_batch,device,rows\n";
  for (int site = 0; site < 4; ++site)
    for (int device = 0; device < 4; ++device)
      csv +=
          std::to_string(site) + ",0," + std::to_string(device) + "," + std::to_string(device == 0 ? 190 : 70) + "\n";
  place.write("counts.csv", csv);
  const Json measured = json_of(place, {"plan", small_model(), "--imbalance-from", "counts.csv", "--quiet"});
  const Json given = json_of(place, {"plan", small_model()});
  EXPECT_GT(measured["ranks"][0]["load"].get<double>(), given["ranks"][0]["load"].get<double>());
  const Json low =
      json_of(place, {"plan", small_model(), "--imbalance-from", "counts.csv", "--imbalance", "p60", "--quiet"});
  EXPECT_LT(low["ranks"][0]["load"].get<double>(), measured["ranks"][0]["load"].get<double>());
}

TEST(Plan, DeviceByNameFileAndNeighbour) {
  const Workplace place;
  EXPECT_EQ(json_of(place, {"plan", small_model(), "--device", "h100-80g"})["device"], "h100-80g");
  const std::string h200 = source_path("devices/h200-141g.yaml").string();
  EXPECT_EQ(json_of(place, {"plan", small_model(), "--device", h200})["device"], "h200-141g");
  // A device beside the model comes before a shipped one of the same name.
  place.write("models/own.yaml", text_of(small_model()));
  std::string device = text_of(h200);
  device.replace(device.find("name: h200-141g"), 15, "name: changed-here");
  place.write("devices/ascend-910b-64g.yaml", device);
  EXPECT_EQ(json_of(place, {"plan", "models/own.yaml"})["device"], "changed-here");
}

TEST(Estimate, CategoriesAddUpUnderEveryPolicy) {
  const Workplace place;
  for (const char* policy : {"keep-all", "full-recompute", "published-recipe"}) {
    const Json json = json_of(place, {"estimate", small_model(), "--policy", policy});
    for (const Json& rank : json["ranks"]) {
      const Json& estimate = rank["estimate"];
      Bytes sum = 0;
      for (const char* part :
           {"parameter_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes", "transient_bytes",
            "communication_bytes", "context_bytes", "workspace_bytes", "collective_buffer_bytes", "unused_bytes"}) {
        EXPECT_GE(estimate.at(part).get<Bytes>(), 0) << policy << " " << part;
        sum += estimate.at(part).get<Bytes>();
      }
      EXPECT_EQ(sum, rank["peak_bytes"].get<Bytes>()) << policy;
      EXPECT_FALSE(estimate["contributors"].empty());
      EXPECT_GT(estimate["passes_in_flight"].get<int>(), 0);
    }
  }
  // A report, not a verdict.
  json_of(place, {"estimate", small_model(), "--budget", "1MiB"}, 0);
}

TEST(Simulate, ScalesOpTimes) {
  const Workplace place;
  const double step = json_of(place, {"simulate", small_model()})["step_ms"];
  const Json slow = json_of(place, {"simulate", small_model(), "--op-time-scale", "3"});
  EXPECT_GT(slow["step_ms"].get<double>(), step);
  EXPECT_GT(json_of(place, {"simulate", small_model(), "--layer-ms", "100"})["step_ms"].get<double>(), 100 * 4 * 8);
  for (const Json& rank : slow["ranks"]) {
    double sum = 0;
    for (const char* line :
         {"compute_ms", "recompute_ms", "copy_overhead_ms", "exposed_communication_ms", "exposed_copy_ms", "bubble_ms"})
      sum += rank["time"][line].get<double>();
    EXPECT_NEAR(sum, rank["time"]["step_ms"].get<double>(), 1e-5);
    EXPECT_EQ(rank["time"]["step_ms"], slow["step_ms"]);
  }
}

// ---- check, show, diff ----------------------------------------------------------------------------------------------

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// The only job of an answer of check.
Json only_job(const Json& answer) {
  EXPECT_EQ(answer.at("jobs").size(), 1U);
  return answer.at("jobs").at(0);
}

TEST(Check, PassesNearsAndFails) {
  const Workplace place;
  const Words job = {"check", small_model(), "--imbalance", "1.2"};
  const Bytes peak = largest(only_job(json_of(place, with(job, {"--budget", "1TiB"}))), "peak_bytes");
  const auto check = [&](Bytes budget, const Words& more) {
    return place.run(with(with(job, {"--budget", std::to_string(budget) + "B"}), more));
  };
  const Ran pass = check(peak * 2, {});
  EXPECT_EQ(pass.status, 0);
  EXPECT_EQ(first_line(pass.out).substr(0, 10), "PASS rank ");
  EXPECT_EQ(first_line(check(peak + 1, {}).out).substr(0, 4), "NEAR");
  EXPECT_EQ(check(peak + 1, {}).status, 0);
  EXPECT_EQ(check(peak + 1, {"--strict"}).status, 1);
  EXPECT_EQ(first_line(check(peak, {"--margin", "0%"}).out).substr(0, 4), "PASS");
  EXPECT_EQ(first_line(check(peak * 2, {"--margin", "100%"}).out).substr(0, 4), "NEAR");

  const Ran fail = check(peak - kMiB, {});
  EXPECT_EQ(fail.status, 1);
  EXPECT_EQ(fail.err, "");
  const std::string line = first_line(fail.out);
  for (const char* part : {"FAIL rank ", ": peak ", " exceeds budget ", " by 1.00 MiB (+", " at "})
    EXPECT_NE(line.find(part), std::string::npos) << line;
  for (const char* part : {"held at the peak of rank", "what to do", "every limit is kept", "(modelled)"})
    EXPECT_NE(fail.out.find(part), std::string::npos) << fail.out;

  const Ran hopeless = check(kMiB, {});
  EXPECT_EQ(hopeless.status, 1);
  EXPECT_NE(hopeless.out.find("and no plan of the job as it is can (proven)"), std::string::npos) << hopeless.out;
  EXPECT_NE(hopeless.out.find("smallest budget known to do: "), std::string::npos) << hopeless.out;
}

TEST(Check, RemedyClearsTheBudget) {
  const Workplace place;
  const Json failed = only_job(json_of(place, with({"check"}, tight()), 1));
  EXPECT_EQ(failed["verdict"], "FAIL");
  EXPECT_TRUE(failed["remedy"]["clears"].get<bool>());
  EXPECT_FALSE(failed["contributors"].empty());
  ASSERT_EQ(place.run(with({"plan", "--out", "plan.json", "--quiet"}, tight())).status, 0);
  const Json plan = only_job(json_of(place, {"check", "plan.json"}));
  EXPECT_NE(plan["verdict"], "FAIL");
  EXPECT_EQ(plan["remedy"], nullptr);
  EXPECT_LE(failed["remedy"]["peak_bytes"].get<Bytes>(),
            parsed(place.read("plan.json"))["ranks"][0]["figures"]["budget_bytes"]);
}

/// The host budget that the plan was made with counts, unless another is given.
TEST(Check, JudgesHostMemoryByThePlansOwnBudget) {
  const Workplace place;
  const Words job = {"plan", small_model(), "--policy", "published-recipe", "--quiet", "--ranks", "0"};
  ASSERT_EQ(place.run(with(job, {"--out", "over.json", "--host-budget", "50MiB"})).status, 1);
  const auto host = [&](const Words& more, int status) {
    const Words check = {"check", "over.json", "--quiet", "--budget", "60GiB", "--margin", "10%"};
    const Json checked = only_job(json_of(place, with(check, more), status));
    for (const Json& finding : checked.at("findings"))
      if (finding.at("kind") == "host") return finding;
    return Json();
  };
  const Json over = host({}, 1);
  EXPECT_EQ(over["verdict"], "FAIL");
  EXPECT_EQ(over["most_bytes"], 50 * kMiB);
  // Its program was made above its budget, and is not verified.
  EXPECT_EQ(host({"--host-budget", "1GiB"}, 0)["verdict"], "NEAR");
}

TEST(Check, TheRemedyNamesOffloadedState) {
  const Workplace place;
  const Ran text = place.run({"check", small_model(), "--budget", "4.6GiB", "--top", "100"});
  EXPECT_TRUE(has_match(text.out, "offload [a-z_.]*optimizer_state on pp")) << text.out;
}

TEST(Check, RefusesAnUnsoundPlan) {
  const Workplace place;
  ASSERT_EQ(place.run({"plan", small_model(), "--out", "plan.json", "--quiet"}).status, 0);
  Json plan = parsed(place.read("plan.json"));
  // Moving a peak by hand does not help: the figures must follow from the program.
  plan["ranks"][0]["figures"]["peak_bytes"] = 1;
  place.write("edited.json", plan.dump());
  const Ran ran = place.run({"check", "edited.json", "--budget", "1GiB"});
  EXPECT_NE(ran.status, 0) << ran.out;
}

TEST(Check, NamesABrokenRule) {
  const Workplace place;
  ASSERT_EQ(place.run({"plan", small_model(), "--out", "plan.json", "--quiet"}).status, 0);
  Json plan = parsed(place.read("plan.json"));
  // Every residency at address 0: no figure shows it.
  Json& offset = plan["ranks"][1]["program"]["residencies"]["offset"];
  const std::int64_t count = offset["count"];
  offset = {{"count", count}, {"data", {0, {1, count - 1}}}};
  place.write("edited.json", plan.dump());
  const Json broken = only_job(json_of(place, {"check", "edited.json"}, 1));
  EXPECT_EQ(broken["verdict"], "FAIL");
  ASSERT_EQ(broken["findings"].size(), 1U);
  EXPECT_EQ(broken["findings"][0]["kind"], "program");
  EXPECT_TRUE(broken["findings"][0]["line"].get<std::string>().starts_with("FAIL rank 1: the program breaks a rule: "))
      << broken["findings"];
}

TEST(Show, ReadsBackWhatPlanWrote) {
  const Workplace place;
  const Json planned = json_of(place, with({"plan"}, tight()));
  ASSERT_EQ(place.run(with({"plan", "--out", "plan.json", "--quiet"}, tight())).status, 0);
  EXPECT_EQ(json_of(place, {"show", "plan.json"}), without_seconds(planned));
  const Ran text = place.run({"show", "plan.json"});
  EXPECT_EQ(text.out, place.run(with({"plan"}, tight())).out);
  const Json one = json_of(place, {"show", "plan.json", "--rank", "1", "--decisions", "--picture"});
  EXPECT_EQ(one["ranks"].size(), 1U);
  EXPECT_EQ(one["pictures"].size(), 1U);
  EXPECT_FALSE(one["decisions"].empty());
  for (const Json& decision : one["decisions"]) {
    EXPECT_EQ(decision["rank"], 1);
    EXPECT_GT(decision["recompute"].get<int>() + decision["swap"].get<int>(), 0);
    EXPECT_GT(decision["bytes"].get<Bytes>(), 0);
  }
}

TEST(Diff, CountsWhatChanged) {
  const Workplace place;
  ASSERT_EQ(place.run({"plan", small_model(), "--policy", "keep-all", "--out", "a.json", "--quiet"}).status, 0);
  ASSERT_EQ(place.run(with({"plan", "--out", "b.json", "--quiet"}, tight())).status, 0);
  const Json forward = json_of(place, {"diff", "a.json", "b.json"}).at("plans");
  const Json backward = json_of(place, {"diff", "b.json", "a.json"}).at("plans");
  const Json whole = json_of(place, {"diff", "b.json", "b.json"}), same = whole.at("plans");
  EXPECT_TRUE(whole["growth"]["storages"].empty());
  EXPECT_TRUE(same["decisions"].empty());
  EXPECT_GT(forward["totals"]["decisions"]["added"].get<int>(), 0);
  EXPECT_EQ(forward["totals"]["decisions"]["added"], forward["decisions"].size());
  EXPECT_EQ(forward["totals"]["decisions"]["added"], backward["totals"]["decisions"]["removed"]);
  EXPECT_EQ(forward["totals"]["moved_up_bytes"].get<Bytes>(), -backward["totals"]["moved_down_bytes"].get<Bytes>());
  EXPECT_TRUE(same["inputs"].empty());
  std::vector<std::string> keys;
  for (const Json& input : forward["inputs"]) keys.push_back(input.at("key"));
  EXPECT_EQ(keys, (std::vector<std::string>{"budget_bytes", "load", "policy"}));
  EXPECT_EQ(forward["inputs"][2]["before"], "keep-all");
  EXPECT_EQ(forward["inputs"][2]["after"], backward["inputs"][2]["before"]);
  const Ran text = place.run({"diff", "a.json", "b.json", "--top", "1"});
  EXPECT_NE(text.out.find("  policy: \"keep-all\" before, \"optimal\" after\n"), std::string::npos) << text.out;
  EXPECT_EQ(text.status, 0);
  const auto before_after = [&](const char* before, const char* after) {
    for (const auto& [size, file] : {std::pair{before, "a.json"}, {after, "b.json"}})
      EXPECT_EQ(place.run({"plan", small_model(), "--budget", size, "--out", file, "--quiet"}).status, 0);
    return place.run({"diff", "a.json", "b.json"}).out;
  };
  EXPECT_NE(before_after("9GiB", "10GiB").find("  budget_bytes: 9.00 GiB before, 10.00 GiB after\n"),
            std::string::npos);
  EXPECT_NE(
      before_after("10737418240B", "10737418241B").find("  budget_bytes: 10737418240 B before, 10737418241 B after\n"),
      std::string::npos);
  EXPECT_NE(text.out.find("others]"), std::string::npos);
  EXPECT_NE(text.out.find("add/remove: "), std::string::npos);
}

// ---- help, list, doctor ---------------------------------------------------------------------------------------------

TEST(Help, StartsWithExamplesForEveryVerb) {
  const Workplace place;
  const Json verbs = json_of(place, {"list", "verbs"});
  ASSERT_FALSE(verbs.empty());
  const std::string general = place.run({"--help"}).out;
  for (const Json& verb : verbs) {
    const std::string name = verb["name"];
    EXPECT_NE(general.find("  " + name + " "), std::string::npos) << name;
    const Ran ran = place.run({name, "--help"});
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.err, "");
    const std::size_t examples = ran.out.find("Examples:"), options = ran.out.find("Options:");
    ASSERT_NE(examples, std::string::npos) << name;
    EXPECT_LT(examples, options) << name;
    const std::size_t statuses = ran.out.find("Exit status:");
    ASSERT_NE(statuses, std::string::npos) << name;
    EXPECT_NE(ran.out.find("  3  a fault in Tidemark", statuses), std::string::npos) << name;
    EXPECT_EQ(place.run({"help", name}).out, ran.out);
  }
}

TEST(Help, OfSimulateNamesBothFilesItTakes) {
  const Workplace place;
  const std::string help = place.run({"simulate", "--help"}).out;
  EXPECT_NE(help.find("model and layout, YAML, or a plan.json"), std::string::npos) << help;
}

TEST(Help, NamesTheVersion) {
  const Workplace place;
  const Ran ran = place.run({"--version"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(first_line(ran.out).substr(0, 9), "tidemark ");
  for (const char* fact : {"revision", "compiler", "oneTBB", "fmt"}) EXPECT_NE(ran.out.find(fact), std::string::npos);
}

TEST(List, HasEveryKind) {
  const Workplace place;
  const std::map<std::string, std::string> expected = {{"policies", "optimal"},
                                                       {"models", "pangu-ultra-moe-718b"},
                                                       {"devices", "ascend-910b-64g"},
                                                       {"packers", "first_fit_by_size"},
                                                       {"verbs", "plan"}};
  for (const auto& [kind, name] : expected) {
    bool found = false;
    for (const Json& entry : json_of(place, {"list", kind})) {
      found = found || entry["name"] == name;
      EXPECT_NE(entry["about"], "") << entry["name"];
    }
    EXPECT_TRUE(found) << kind;
    EXPECT_NE(place.run({"list", kind}).out.find(name), std::string::npos);
  }
}

TEST(Doctor, FindsThisInstallation) {
  const Workplace place;
  const Json json = json_of(place, {"doctor"});
  EXPECT_TRUE(json["healthy"].get<bool>());
  EXPECT_GE(json["findings"].size(), 10U);
}

TEST(Doctor, SaysHowMuchMemoryThereIsAndWhatLimitsIt) {
  const Workplace place;
  const Json json = json_of(place, {"doctor"});
  std::string memory;
  for (const Json& finding : json["findings"])
    if (finding["what"] == "memory") memory = finding["value"];
  EXPECT_TRUE(has_match(memory, "^[0-9.]+ [KMGT]iB, [0-9.]+ [KMGT]iB available( \\(limit of memory group /.*\\))?$"))
      << memory;
}

// ---- the reference job ----------------------------------------------------------------------------------------------

TEST(ReferenceJob, FitsAndBeatsWhatIsPublished) {
  const Workplace place;
  const std::string model = source_path("models/pangu-ultra-moe-718b.yaml").string();
  const Json json = json_of(place, {"plan", model, "--quiet"});
  expect_contract(json, 16, 32);
  for (const Json& rank : json["ranks"]) EXPECT_TRUE(rank["fits"].get<bool>()) << rank["rank"];
  EXPECT_NEAR(json["parameters"].get<double>(), 717.9e9, 0.1e9);
  EXPECT_NEAR(json["active_parameters"].get<double>(), 39.19e9, 0.1e9);

  const Json published = json_of(place, {"simulate", model, "--against", "published", "--quiet"});
  EXPECT_EQ(published["policy"], "published-recipe");
  double gap = 0;
  for (const Json& cause : published["against"]["causes"]) gap += cause["gap_ms"].get<double>();
  EXPECT_NEAR(
      gap,
      published["against"]["published_step_ms"].get<double>() - published["against"]["modelled_step_ms"].get<double>(),
      1e-3);
  EXPECT_NEAR(published["against"]["published_layer_ms"].get<double>(), 120.5, 0.1);
}

/// What an option lets in, the readers of plan files let in.
TEST(PlanFiles, AreReadBackAtBothEndsOfEveryOption) {
  const Workplace place;
  const auto expect_read_back = [&](const Words& arguments) {
    SCOPED_TRACE(arguments.back());
    const Ran plan = place.run(with({"plan", "--ranks", "0", "--quiet", "--out", "plan.json"}, arguments));
    EXPECT_TRUE(plan.status == 0 || plan.status == 1) << plan.err;
    const Ran show = place.run({"show", "plan.json"});
    EXPECT_EQ(show.status, 0) << show.err;
  };
  const std::vector<Words> ends = {
      {"--budget", "0B", "1024TiB"},    {"--host-budget", "0B", "1024TiB"},   {"--imbalance", "1", "4"},
      {"--imbalance", "p0.1", "p99.9"}, {"--op-time-scale", "0.001", "1000"}, {"--layer-ms", "1e-6", "1000000"}};
  for (const Words& end : ends)
    for (std::size_t i = 1; i < end.size(); ++i) expect_read_back({small_model(), end[0], end[i]});
  std::string model = text_of(small_model());
  const std::string load = "  coefficient_of_variation: 0.10\n  layer_correlation: 0.25\n";
  ASSERT_NE(model.find(load), std::string::npos);
  for (const char* mean : {"1e-6", "4"}) {  // the most that routing sends a device of this job
    std::string text = model;
    place.write("models/own.yaml", text.replace(text.find(load), load.size(), std::string("  mean: ") + mean + "\n"));
    expect_read_back({"models/own.yaml", "--device", "ascend-910b-64g"});
  }
}

/// Settings are evaluated by planning with them, and the file holds them alone.
TEST(Export, SettingsFitAndAreWrittenWhole) {
  const Workplace place;
  ASSERT_EQ(place.run(with({"plan", "--quiet", "--out", "plan.json"}, tight())).status, 0);
  for (const char* framework : {"megatron", "mindspeed", "mindformers"}) {
    SCOPED_TRACE(framework);
    const Ran ran =
        place.run({"export", "plan.json", "--to", framework, "--out", "settings", "--quiet", "--format", "json"});
    const Json json = parsed(ran.out);
    EXPECT_EQ(ran.status, json.at("fits").get<bool>() ? 0 : 1);
    EXPECT_EQ(place.read("settings"), json.at("settings").get<std::string>());
    for (const Json& rank : json.at("ranks"))
      EXPECT_EQ(rank.at("fits").get<bool>(), rank.at("peak_bytes") <= rank.at("budget_bytes"));
    EXPECT_FALSE(json.at("remarks").empty());
    const std::string text = place.run({"export", "plan.json", "--to", framework, "--threads", "1"}).out;
    EXPECT_NE(text.find(json.at("settings").get<std::string>()), std::string::npos);
  }
}

TEST(Export, NamesTheStateThatSettingsDoNotOffload) {
  const Workplace place;
  ASSERT_EQ(place.run({"plan", small_model(), "--quiet", "--budget", "4.6GiB", "--out", "plan.json"}).status, 0);
  const Json json = parsed(place.run({"export", "plan.json", "--to", "megatron", "--format", "json"}).out);
  const auto& list = json.at("not_expressed");
  EXPECT_TRUE(std::ranges::any_of(list, [](const Json& row) { return row["plan"]["offload"].get<int>() > 0; })) << list;
  EXPECT_TRUE(std::ranges::any_of(json.at("remarks"), [](const Json& remark) {
    return remark.get<std::string>().find("the plan keeps optimizer state in host memory") == 0;
  })) << json.at("remarks");
}

TEST(Export, SaysThatNoSettingPlacesTheHead) {
  const Workplace place;
  const std::string key = "  communicators: 6\n";
  std::string model = text_of(small_model());
  ASSERT_NE(model.find(key), std::string::npos);
  place.write("apart.yaml", model.insert(model.find(key),
                                         "  placement: {ranks: [[[0-2], [6, 7]], [[3-5], [mtp]]], head_stage: 2}\n"));
  const Ran planned = place.run({"plan", "apart.yaml", "--device", "ascend-910b-64g", "--quiet", "--out", "plan.json"});
  ASSERT_EQ(planned.status, 0) << planned.err;
  for (const char* framework : {"megatron", "mindspeed", "mindformers"}) {
    const Json json = json_of(place, {"export", "plan.json", "--to", framework});
    EXPECT_TRUE(std::ranges::any_of(json.at("remarks"), [](const Json& remark) {
      return remark.get<std::string>().find("the plan has the main output head on stage 2, before the last") == 0;
    })) << json.at("remarks");
  }
}

TEST(Export, NamesWhatNoMeasuredRunHad) {
  const Workplace place;
  ASSERT_EQ(place.run(with({"plan", "--quiet", "--out", "plan.json"}, tight())).status, 0);
  bool is_named = false;
  for (const char* framework : {"megatron", "mindspeed"}) {
    const Ran ran = place.run({"export", "plan.json", "--to", framework, "--format", "json"});
    const Json json = parsed(ran.out);
    const std::string settings = json.at("settings");
    const bool copies =
        settings.find("offload-modules") != std::string::npos || settings.find("swap") != std::string::npos;
    const auto& terms = json.at("unmeasured_terms");
    EXPECT_EQ(std::ranges::find(terms, Json("activations_on_host")) != terms.end(), copies) << settings << terms;
    is_named |= copies;
    const bool is_said = std::ranges::any_of(json.at("remarks"), [](const Json& remark) {
      return remark.get<std::string>().starts_with("no measured run on chips of this kind had what these settings");
    });
    EXPECT_EQ(is_said, !terms.empty());
  }
  EXPECT_TRUE(is_named);
}

/// Moonlight-16B-A3B on eight H100, as Megatron-Bridge measured it (NVIDIA-NeMo/Megatron-Bridge,
/// skills/nemo-mbridge-perf-activation-recompute): core attention, mlp beside mla_up_proj and layernorm beside moe_act
/// took time and freed nothing.
constexpr const char* kMoonlight = R"(torchrun --nproc_per_node 8 pretrain_gpt.py \
  --tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 8 \
  --expert-tensor-parallel-size 1 --num-layers 27 --hidden-size 2048 --ffn-hidden-size 11264 \
  --num-attention-heads 16 --multi-latent-attention --kv-lora-rank 512 --qk-head-dim 128 \
  --qk-pos-emb-head-dim 64 --v-head-dim 128 --seq-length 4096 --max-position-embeddings 8192 \
  --padded-vocab-size 163840 --num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408 \
  --moe-shared-expert-intermediate-size 2816 --moe-layer-freq [0]+[1]*26 --moe-grouped-gemm \
  --moe-token-dispatcher-type alltoall --moe-router-force-load-balancing --moe-permute-fusion \
  --swiglu --disable-bias-linear --normalization RMSNorm --position-embedding-type rope \
  --untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 --attention-backend flash \
  --cross-entropy-loss-fusion --cross-entropy-fusion-impl te --use-distributed-optimizer \
  --overlap-grad-reduce --micro-batch-size 1 --global-batch-size 4 --bf16
)";

TEST(Export, DeclinesWhatTookTimeAndFreedNothing) {
  const Workplace place;
  place.write("moonlight.sh", kMoonlight);
  // Everything kept takes 49.5 GiB; the choices that paid freed 0.7 GB of what was measured.
  for (const char* budget : {"49.2GiB", "48.8GiB", "48.4GiB", "48GiB"}) {
    const Ran planned = place.run({"plan", "--megatron-args", "moonlight.sh", "--device", "h100-80g", "--imbalance",
                                   "1", "--budget", budget, "--quiet", "--out", "plan.json"});
    ASSERT_EQ(planned.status, 0) << planned.err;
    EXPECT_EQ(planned.out.find("attention_out_core: recompute"), std::string::npos) << planned.out;
    const std::string settings = json_of(place, {"export", "plan.json", "--to", "megatron"}).at("settings");
    const std::size_t at = settings.find("--recompute-modules");
    const std::string modules = at == std::string::npos ? "" : settings.substr(at, settings.find('\n', at) - at);
    const auto has = [&modules](const char* module) { return modules.find(module) != std::string::npos; };
    EXPECT_FALSE(has("core_attn")) << settings;
    EXPECT_FALSE(has("mla_up_proj") && has("mlp")) << settings;
    EXPECT_FALSE(has("layernorm") && has("moe_act")) << settings;
    EXPECT_NE(settings.find("--"), std::string::npos) << "something is needed";
  }
}

TEST(Export, NothingIsSetWhereEverythingFits) {
  const Workplace place;
  ASSERT_EQ(place.run({"plan", small_model(), "--quiet", "--imbalance", "1", "--out", "plan.json"}).status, 0);
  const Json json = json_of(place, {"export", "plan.json", "--to", "megatron"});
  EXPECT_EQ(json.at("settings"), "# nothing to set: everything is kept\n");
  EXPECT_EQ(json.at("step_ms"), json.at("plan_step_ms"));
  EXPECT_TRUE(json.at("not_expressed").empty());
}

TEST(Export, BelowTheLeastNothingFits) {
  const Workplace place;
  ASSERT_EQ(
      place.run({"plan", small_model(), "--quiet", "--imbalance", "1", "--budget", "1B", "--out", "plan.json"}).status,
      1);
  const Json json = json_of(place, {"export", "plan.json", "--to", "mindspeed"}, 1);
  EXPECT_FALSE(json.at("fits").get<bool>());
  EXPECT_FALSE(json.at("ranks").at(0).at("reason").get<std::string>().empty());
}

TEST(Export, RefusesAnExchangeInPartsWhichNoSettingSays) {
  const Workplace place;
  const std::string model = text_of(small_model());
  const std::string key = "hierarchical_expert_communication: true\n";
  ASSERT_NE(model.find(key), std::string::npos);
  place.write("parts.yaml", std::string(model).insert(model.find(key) + key.size(), "  expert_exchange_parts: 2\n"));
  const Ran planned = place.run({"plan", "parts.yaml", "--out", "plan.json"});
  ASSERT_EQ(planned.status, 0) << planned.err;
  EXPECT_NE(planned.out.find("expert exchange in 2 parts"), std::string::npos) << planned.out;
  for (const char* framework : {"megatron", "mindspeed", "mindformers"})
    expect_refused(place, {"export", "plan.json", "--to", framework},
                   "^plan\\.json: experts exchange rows in 2 parts, which the settings of " + std::string(framework) +
                       " cannot say; plan with parallel\\.expert_exchange_parts 1\n$");
  const Ran ran = place.run({"run", "plan.json", "--device", "sim"});
  EXPECT_EQ(ran.status, 0) << ran.err;
}

Words small_search() {
  return {"search", small_model(), "--devices", "4", "--top", "8", "--most-planned", "20", "--imbalance", "1"};
}

TEST(Search, RanksTheJobsOwnLayoutAndOthers) {
  const Workplace place;
  const Json json = json_of(place, {"search", small_model(), "--most-planned", "12", "--imbalance", "1"});
  EXPECT_EQ(json.at("devices"), 8);
  ASSERT_FALSE(json.at("best").empty());
  double last = 0;
  for (const Json& layout : json.at("best")) {
    EXPECT_GE(layout.at("step_ms").get<double>(), last);
    last = layout.at("step_ms").get<double>();
    EXPECT_LE(layout.at("bound_ms").get<double>(), last);
  }
  const Json given = json.at("given");
  EXPECT_GT(given.at("rank").get<int>(), 0);
  // The same figures as the plan of the job itself.
  const Json plan = json_of(place, {"plan", small_model(), "--imbalance", "1"});
  EXPECT_DOUBLE_EQ(given.at("step_ms").get<double>(), plan.at("step_ms").get<double>());
  EXPECT_EQ(given.at("peak_bytes").get<Bytes>(), largest(plan, "peak_bytes"));
  EXPECT_EQ(json.at("legal").get<int>(), json.at("over_static").get<int>() + json.at("bounded_away").get<int>() +
                                             json.at("planned").get<int>() + json.at("below").get<int>());
}

TEST(Search, NamesWhatNoMeasuredRunHad) {
  const Workplace place;
  const Json json = json_of(place, {"search", small_model(), "--most-planned", "12", "--imbalance", "1"});
  for (const Json& layout : json.at("best")) {
    const auto& terms = layout.at("unmeasured_terms");
    const auto has = [&terms](const char* term) { return std::ranges::find(terms, Json(term)) != terms.end(); };
    const bool exchanges = layout.at("expert").get<int>() > 1 ||
                           (layout.at("tensor_extends_expert").get<bool>() && layout.at("tensor").get<int>() > 1);
    EXPECT_EQ(has("exchange_by_node"), exchanges && layout.at("hierarchical_expert_communication").get<bool>())
        << layout;
    EXPECT_FALSE(has("tensor_parallel")) << "rows of Ascend have it";
    EXPECT_FALSE(has("experts")) << layout;
  }
  const std::string text = place.run({"search", small_model(), "--most-planned", "12", "--imbalance", "1"}).out;
  EXPECT_NE(text.find("no measured run on chips of this kind had what"), std::string::npos) << text;
}

TEST(Search, CountsEachLayoutOnceBelowStaticMemory) {
  const Workplace place;
  for (const char* budget : {"1B", "4GiB", "4.6GiB"}) {
    const Words command = {"search", small_model(), "--most-planned", "4", "--imbalance", "1", "--budget", budget};
    const Ran ran = place.run(with(command, {"--format", "json"}));
    ASSERT_TRUE(ran.status == 0 || ran.status == 1) << ran.err;
    const Json json = parsed(ran.out);
    std::size_t counted = 0;
    for (const char* fate : {"over_static", "bounded_away", "planned", "below"})
      counted += json.at(fate).get<std::size_t>();
    EXPECT_EQ(json.at("legal").get<std::size_t>(), counted) << budget;
    EXPECT_LE(json.at("bounded_away").get<std::size_t>(), counted) << budget;
  }
}

TEST(Search, PlansAsManyAsAskedAndTheJobsOwn) {
  const Workplace place;
  for (const int most : {1, 4}) {
    const Words command = {"search", small_model(), "--most-planned", std::to_string(most), "--imbalance", "1"};
    EXPECT_EQ(json_of(place, command).at("planned"), most + 1);  // its own on its own number of devices
    const Json elsewhere = json_of(place, with(command, {"--devices", "4"}));
    EXPECT_EQ(elsewhere.at("planned"), most + (elsewhere.at("given").is_null() ? 0 : 1));
  }
}

TEST(CliSearch, CountsArchitecturesInWholeNumbersAndTheirPlurals) {
  const Workplace place;
  place.write("space.yaml", "vary:\n  layers: 8\n");
  const Words command = {"search", small_model(), "--architectures", "space.yaml", "--imbalance", "1"};
  const Ran text = place.run(command);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("1 architecture on 8 x ")) << text.out;
  EXPECT_NE(text.out.find("\n  1 fits, 0 do not on any layout tried, 0 are slower"), std::string::npos) << text.out;
  const Json json = json_of(place, command);
  ASSERT_EQ(json["fastest"].size(), 1U);
  for (const char* key : {"parameters", "active_parameters"})
    EXPECT_TRUE(json["fastest"][0][key].is_number_integer()) << key << ": " << json["fastest"][0][key];
  const double billions = json["fastest"][0]["active_parameters"].get<double>() * 1e-9;
  EXPECT_NE(text.out.find(fmt::format(" {:.2f} ", billions)), std::string::npos) << text.out;
}

TEST(Search, HelpHasNoOptionThatIsAlwaysRefused) {
  const Workplace place;
  const Ran help = place.run({"search", "--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* refused : {"--ranks", "--imbalance-from", "pQ"})
    EXPECT_EQ(help.out.find(refused), std::string::npos) << refused;
  for (const char* refused : {"--ranks", "--imbalance-from"})
    expect_refused(place, {"search", small_model(), refused, "0"},
                   std::string("^tidemark search: ") + refused + ": .*; drop it");
}

TEST(Search, GoesOnWhereItWasStopped) {
  const Workplace place;
  const Words command = with(small_search(), {"--resume", "log", "--quiet"});
  const Ran whole = place.run(command);
  ASSERT_EQ(whole.status, 0) << whole.err;
  const std::string log = place.read("log");
  ASSERT_GT(std::ranges::count(log, '\n'), 5);
  EXPECT_EQ(place.run(with(small_search(), {"--threads", "1"})).out, whole.out);
  // Cut off in a line, after the header, in the header, and before anything was written.
  for (const std::size_t bytes : {log.size() - 7, log.find('\n') + 1, std::size_t{5}, std::size_t{0}}) {
    place.write("log", log.substr(0, bytes));
    EXPECT_EQ(place.run(command).out, whole.out) << bytes;
    EXPECT_EQ(place.read("log"), log) << bytes;
  }
  expect_refused(place, with(small_search(), {"--resume", "log", "--budget", "8GiB"}), "log:1: written by a search of");
  place.write("log", log.substr(0, log.find('\n') + 1) + "TP1\tfits\t1\n");
  expect_refused(place, command, "log:2: not a layout with its figures");
  place.write("log", "something else\n");
  expect_refused(place, command, "log:1: not the file of a search");
}

}  // namespace
}  // namespace tidemark::testing
