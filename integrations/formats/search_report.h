#pragma once
// What `tidemark search` prints: how many layouts there are and what became of them, the fastest that fit with what
// binds each, and where the job's own layout stands with the reasons of what beats it. Every time is modelled.

#include <string>

#include "planner/search/layout_search.h"

namespace tidemark::formats {

/// Borrowed for the call.
struct SearchReport {
  const plan::PlanRequest& request;
  const search::LayoutSpace& space;
  const search::LayoutSearchResult& result;
  std::int64_t devices = 0;
};

[[nodiscard]] std::string search_text(const SearchReport& report);
[[nodiscard]] std::string search_json(const SearchReport& report);

/// `bubble -1.20 s, communication +0.31 s`: what `layout` spends otherwise than `other`, largest first.
[[nodiscard]] std::string difference_text(const search::LayoutFigures& layout, const search::LayoutFigures& other);

}  // namespace tidemark::formats
