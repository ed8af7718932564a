#pragma once
// What plans for several expert loads add to a step, and for which other load a plan promises more.

#include <functional>
#include <optional>
#include <vector>

namespace tidemark::plan {

class LoadCurve {
 public:
  /// A plan that there is.
  struct Point {
    double load = 1;      ///< that it holds memory for
    double added_ns = 0;  ///< to every step
    /// Added in the mean by sections in chunks, were it a plan for this load.
    std::function<double(double load)> chunks_ns;
  };
  void add(Point point);
  /// Of the plan for exactly this load.
  [[nodiscard]] std::optional<double> added_ns(double load) const;
  /// The nearest that is planned for on the way from one load to another, that one included.
  [[nodiscard]] std::optional<double> next_load(double from, double to) const;

  struct Candidate {
    double load = 1;
    double gain_ns = 0;  ///< expected, below the best of the plans there are
  };
  /// Between `least`, a load and what no plan for it adds less than, and the highest load planned for. In between,
  /// plans are taken to lie on straight lines, with chunks as the one below has them: a bound may be far below what
  /// plans add, and planning there tells. Nothing: no plan is known.
  [[nodiscard]] std::optional<Candidate> best(const Point& least) const;

 private:
  std::vector<Point> points_;  ///< ascending by load
};

}  // namespace tidemark::plan
