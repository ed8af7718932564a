#include "integrations/measured/measured_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "integrations/formats/field_ranges.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_device_samples.h"
#include "integrations/formats/import_memory_record.h"
#include "integrations/formats/import_operator_memory.h"
#include "integrations/formats/import_snapshot.h"
#include "integrations/formats/shown.h"
#include "integrations/measured/rank_files.h"
#include "integrations/measured/rank_measure.h"
#include "integrations/measured/unread_files.h"

namespace tidemark::measured {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostNotes = 20;
constexpr Bytes kMostRunBytes = std::int64_t{1} << 60;  // of all ranks together, so that sums are exact

template <class Value>
Result<RankMeasure> measured(const Result<Value>& read) {
  if (!read) return read.error();
  return measure_of(read.value());
}

Status check_rank(const Result<std::vector<formats::DeviceSample>>& samples, const RankFiles& rank,
                  std::string_view file) {
  if (!samples) return {};
  for (const formats::DeviceSample& sample : samples.value())
    if (sample.rank && *sample.rank != rank.rank)
      return bad_input(fmt::format("{}:{}: the sample is of rank {}; by its name the file is of rank {}", file,
                                   sample.line, *sample.rank, rank.rank));
  return {};
}

Result<RankMeasure> read_one(const MeasuredFile& file, const RankFiles& rank, const SeeFile& see) {
  const bool is_small = file.kind == MeasuredKind::device_samples;
  const Result<std::string> text =
      formats::read_file(file.path, is_small ? formats::kMostMeasurementBytes : formats::kMostFileBytes);
  if (!text) return text.error();
  if (see) see(text.value());
  const std::string name = formats::printable(file.path.string());
  switch (file.kind) {
    case MeasuredKind::snapshot:
      return measured(formats::read_attributed_snapshot(text.value(), name));
    case MeasuredKind::operator_memory:
      return measured(formats::read_attributed_operator_memory(text.value(), name));
    case MeasuredKind::memory_record:
    case MeasuredKind::module_memory:
      return measured(formats::read_memory_record(text.value(), name));
    case MeasuredKind::device_samples:
      break;
  }
  const auto samples = formats::read_device_samples(text.value(), name);
  if (Status status = check_rank(samples, rank, name); !status) return status.error();
  return measured(samples);
}

/// Of a file alone its name; of one in a folder where it lies below that.
std::string place_of(const fs::path& file, const fs::path& place) {
  const fs::path below = file.lexically_relative(place);
  return formats::printable((below.empty() || below == "." ? file.filename() : below).generic_string());
}

struct ReadRank {
  budget::RankHoldings holdings;
  std::vector<std::string> notes;
  std::vector<std::string> doubts;  ///< of its files: why it may have held more
};

/// What a baseline can hold, and far from where growth would overflow.
Status check_size(const budget::RankHoldings& rank, const fs::path& file) {
  const Bytes most = std::max(rank.peak_bytes, rank.host_bytes.value_or(0));
  if (most <= formats::kMostPlanBytes) return {};
  return bad_input(fmt::format("{}:1: rank {} held more than 2^50 bytes by it, which no device and no host has",
                               formats::printable(file.string()), rank.rank));
}

Result<ReadRank> read_rank(const RankFiles& rank, const fs::path& place, const SeeFile& see) {
  RankMeasure all;
  for (const MeasuredFile& file : rank.files) {
    Result<RankMeasure> one = read_one(file, rank, see);
    if (!one) return one.error();
    add(all, std::move(one).value());
  }
  const fs::path& first = rank.files.front().path;
  if (!tells_device(all))
    return bad_input(
        fmt::format("{}:1: nothing of the device's memory was measured, only the host's; beside it a "
                    "snapshot or samples of the device are needed",
                    formats::printable(first.string())));
  budget::RankHoldings holdings = holdings_of(rank.rank, place_of(first, place), all);
  if (Status status = check_size(holdings, first); !status) return status.error();
  return ReadRank{.holdings = std::move(holdings), .notes = std::move(all.notes), .doubts = std::move(all.doubts)};
}

void add_notes(std::int64_t rank, const std::vector<std::string>& notes, std::size_t& left_out,
               budget::Holdings& holdings) {
  for (const std::string& note : notes)
    if (holdings.notes.size() < kMostNotes)
      holdings.notes.push_back(fmt::format("rank {}: {}", rank, note));
    else
      ++left_out;
}

void add_doubts(std::int64_t rank, const std::vector<std::string>& doubts, budget::Holdings& holdings) {
  holdings.is_understood = holdings.is_understood && doubts.empty();
  for (const std::string& doubt : doubts) holdings.doubts.push_back(fmt::format("rank {}: {}", rank, doubt));
}

/// A run of which a rank left nothing, or of which something was not read: what was read is not all there is.
void add_unread(const fs::path& place, const std::vector<RankFiles>& ranks, budget::Holdings& holdings) {
  const Unread unread = find_unread(place, ranks);
  for (const EmptyRank& one : unread.ranks) {
    holdings.untold_ranks.push_back(one.rank);
    if (holdings.untold_ranks.size() <= kMostNotes)
      holdings.notes.push_back(fmt::format("rank {}: {}", one.rank, one.why));
  }
  if (unread.ranks.size() > kMostNotes)
    holdings.notes.push_back(fmt::format("{} ranks more left no measurement", unread.ranks.size() - kMostNotes));
  for (const std::string& one : unread.places) {
    holdings.is_understood = false;
    if (holdings.doubts.size() == kMostNotes) break;
    holdings.doubts.push_back(one);
    holdings.notes.push_back(one);
  }
}

/// Numbers that are not there between those that are. They may have been left out on purpose: no verdict.
void note_gaps(budget::Holdings& holdings) {
  const std::int64_t first = holdings.ranks.front().rank, last = holdings.ranks.back().rank;
  const auto is_between = [&](std::int64_t rank) { return first < rank && rank < last; };
  const auto gaps = last - first + 1 - static_cast<std::int64_t>(holdings.ranks.size()) -
                    std::ranges::count_if(holdings.untold_ranks, is_between);
  if (gaps > 0)
    holdings.notes.push_back(fmt::format("ranks {} to {}: no file is named for {} of them", first, last, gaps));
}

std::string source_of(const fs::path& place, const std::vector<RankFiles>& ranks) {
  std::string kinds;
  for (const MeasuredFile& file : ranks.front().files)
    kinds += fmt::format("{}{}", kinds.empty() ? "" : " + ", kMeasuredKindWords[static_cast<std::size_t>(file.kind)]);
  return fmt::format("{}, {}", formats::printable(place.string()), kinds);
}

}  // namespace

Result<budget::Holdings> read_measured(const fs::path& place, const SeeFile& see) {
  const Result<std::vector<RankFiles>> ranks = find_rank_files(place);
  if (!ranks) return ranks.error();
  budget::Holdings holdings;
  holdings.basis = budget::Basis::measured;
  holdings.source = source_of(place, ranks.value());
  std::size_t left_out = 0;
  Bytes sum = 0;
  for (const RankFiles& rank : ranks.value()) {
    Result<ReadRank> read = read_rank(rank, place, see);
    if (!read) return read.error();
    const Bytes peak = read.value().holdings.peak_bytes;
    if (peak > kMostRunBytes - sum)
      return bad_input(fmt::format("{}:1: the ranks up to here held more than 2^60 bytes together",
                                   formats::printable(rank.files.front().path.string())));
    sum += peak;
    add_doubts(rank.rank, read.value().doubts, holdings);
    add_notes(rank.rank, read.value().doubts, left_out, holdings);
    add_notes(rank.rank, read.value().notes, left_out, holdings);
    holdings.ranks.push_back(std::move(read.value().holdings));
  }
  if (left_out > 0) holdings.notes.push_back(fmt::format("{} notes more on other ranks", left_out));
  add_unread(place, ranks.value(), holdings);
  note_gaps(holdings);
  return holdings;
}

}  // namespace tidemark::measured
